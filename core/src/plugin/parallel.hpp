// parallel.hpp: a loop over several threads, for loading only.
#pragma once

#include <tenon/abi.h>

#include <cstdint>

namespace tenon::plugin {

// Calls body(arg, i) once for each i < n, in no order, on up to as many threads as the machine has cores, and returns
// when all are done. After a body throws, the remaining ones are left out and the answer is INTERNAL.
tenon_status run_parallel(int64_t n, void (*body)(void* arg, int64_t i), void* arg) noexcept;

}  // namespace tenon::plugin
