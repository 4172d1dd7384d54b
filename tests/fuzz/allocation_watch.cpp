#include "allocation_watch.hpp"

#include "sanitized.hpp"

#if TENON_ADDRESS_SANITIZER
#include <atomic>

// Declared here because GCC has these functions in its runtime but not the header sanitizer/allocator_interface.h.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t), void (*on_free)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* memory);
}
#else
#include <sys/resource.h>
#endif

namespace tenon::fuzz {
#if TENON_ADDRESS_SANITIZER
namespace {

std::atomic<int64_t> live{0}, peak{0};

void on_malloc(const volatile void*, size_t bytes) {
  const int64_t now = live.fetch_add(int64_t(bytes), std::memory_order_relaxed) + int64_t(bytes);
  int64_t before = peak.load(std::memory_order_relaxed);
  while (now > before && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

void on_free(const volatile void* memory) {
  const auto bytes = memory ? __sanitizer_get_allocated_size(const_cast<const void*>(memory)) : 0;
  live.fetch_sub(int64_t(bytes), std::memory_order_relaxed);
}

}  // namespace

void AllocationWatch::install() { __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free); }

void AllocationWatch::begin() { live = 0, peak = 0; }

uint64_t AllocationWatch::peak_bytes() { return uint64_t(peak.load()); }
#else
namespace {

uint64_t first_bytes = 0;

uint64_t largest_resident_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) << 10;
}

}  // namespace

void AllocationWatch::install() {}

void AllocationWatch::begin() { first_bytes = largest_resident_bytes(); }

uint64_t AllocationWatch::peak_bytes() { return largest_resident_bytes() - first_bytes; }
#endif

}  // namespace tenon::fuzz
