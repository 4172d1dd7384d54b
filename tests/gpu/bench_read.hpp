// bench_read.hpp: the limit that times are held against.
#pragma once

#include <cstdint>

namespace tenon::gpu_bench {

// Bytes a second of a kernel that only reads `bytes` at `address` on the device of that number. 0 where this program was
// built without a CUDA compiler or the runtime fails: then shares are not printed.
double read_bandwidth(uint32_t device, uint64_t address, uint64_t bytes);

}  // namespace tenon::gpu_bench
