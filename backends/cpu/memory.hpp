// memory.hpp: host memory as the memory of a device.
#pragma once

#include <tenon/abi.h>

#include <cstdint>

namespace tenon::cpu {

struct MemoryState {
  uint64_t free_bytes = 0, total_bytes = 0;
};

// What the system, and the control group of this process if it has a limit, would still give.
MemoryState memory_state();

// Zeroed memory at a multiple of max(align, 64); large blocks at huge pages. 0 when there is not enough; `align` is a
// power of two. Any thread.
tenon_addr allocate(uint64_t bytes, uint64_t align);
// Takes what allocate() gave; 0 is ignored.
void release(tenon_addr address);

// `rows` rows of row_bytes each, begins dst_step and src_step apart.
void copy_rows(tenon_addr dst, tenon_addr src, uint64_t row_bytes, uint64_t rows, uint64_t dst_step, uint64_t src_step);

}  // namespace tenon::cpu
