#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "message.hpp"

namespace tenon::plugin {

tenon_status run_parallel(int64_t n, void (*body)(void* arg, int64_t i), void* arg) noexcept {
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&]() noexcept {
    try {
      for (int64_t i; (i = next.fetch_add(1)) < n && !failed;) body(arg, i);
    } catch (...) {
      failed = true;
    }
  };
  try {
    const int64_t n_threads = std::min<int64_t>(n, std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::jthread> helpers;
    helpers.reserve(size_t(std::max<int64_t>(n_threads, 1)));
    try {
      for (int64_t i = 1; i < n_threads; ++i) helpers.emplace_back(work);
    } catch (...) {
      // No more threads to be had: those there are do the work.
    }
    work();
  } catch (...) {
    work();
  }
  return failed ? set_message(TENON_INTERNAL, "the body of a parallel loop threw an exception") : TENON_OK;
}

}  // namespace tenon::plugin
