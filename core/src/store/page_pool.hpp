// page_pool.hpp: which pages of a pool are in use, and by how many holders.
#pragma once

#include <stddef.h>
#include <cstdint>
#include <vector>

namespace tenon::store {

// Page numbers 0 … n - 1, each with a count of its holders: live sequences and the prefix index. One thread.
class PagePool {
 public:
  // Makes n pages free. Call once, when memory for them was had.
  void fill(int64_t n);
  bool is_filled() const { return !holders_.empty(); }
  int64_t n_free() const { return int64_t(free_.size()); }
  int32_t take();  // a free page, now held once; there must be one
  void share(int32_t page) { ++holders_[size_t(page)]; }
  void release(int32_t page);  // free again with its last holder; negative numbers are no page
  uint32_t holders(int32_t page) const { return holders_[size_t(page)]; }

 private:
  std::vector<int32_t> free_;  // the next one last
  std::vector<uint32_t> holders_;
};

}  // namespace tenon::store
