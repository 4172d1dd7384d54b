#include "page_pool.hpp"

namespace tenon::store {

void PagePool::fill(int64_t n) {
  holders_.assign(size_t(n), 0);
  for (int64_t i = n; i-- > 0;) free_.push_back(int32_t(i));
}

int32_t PagePool::take() {
  const int32_t page = free_.back();
  free_.pop_back();
  holders_[size_t(page)] = 1;
  return page;
}

void PagePool::release(int32_t page) {
  if (page >= 0 && --holders_[size_t(page)] == 0) free_.push_back(page);
}

}  // namespace tenon::store
