// large_array.hpp: a vector whose memory asks for huge pages, for hash tables of many megabytes.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace tenon::text {

// Random access to such a table misses the TLB at nearly every step when pages have 4 KiB. Small blocks come from
// malloc.
template <class T>
struct LargeAllocator {
  using value_type = T;
  static constexpr size_t kPage = size_t{2} << 20;

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) {}

  T* allocate(size_t n) {
    if (n > (SIZE_MAX - kPage) / sizeof(T)) throw std::bad_array_new_length();
    const size_t bytes = n * sizeof(T);
    const bool is_large = bytes >= kPage;
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* memory = is_large ? std::aligned_alloc(kPage, rounded) : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (is_large) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: its failure changes speed only
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const LargeAllocator&) const { return true; }
};

template <class T>
using LargeArray = std::vector<T, LargeAllocator<T>>;

}  // namespace tenon::text
