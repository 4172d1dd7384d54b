// row_shape.hpp: how rows are dealt to threads; for host and device code.
#pragma once

#include <cstdint>

namespace tenon::cuda {

constexpr int kFour = 4;  // columns that a thread has side by side
constexpr unsigned kMaxThreads = 1024;

// Threads that share the sum over `group` columns: thread t has the vectors t, t + threads, …. A function of the width
// alone, and with it the order of the sum.
inline unsigned norm_threads(int64_t group) {
  const int64_t vectors = (group + kFour - 1) / kFour, each = (vectors + kMaxThreads - 1) / kMaxThreads;
  return unsigned(((vectors + each - 1) / each + 31) / 32 * 32);
}

}  // namespace tenon::cuda
