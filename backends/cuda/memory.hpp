// memory.hpp: the members of the backend that move and hold bytes. `self` is unused; see tenon_backend in abi.h.
#pragma once

#include <tenon/abi.h>

namespace tenon::cuda {

tenon_status memory_info(void* self, uint32_t dev, uint64_t* free_bytes, uint64_t* total) noexcept;
tenon_status allocate(void* self, uint32_t dev, uint32_t kind, uint64_t bytes, uint64_t align, tenon_addr*) noexcept;
void release(void* self, uint32_t dev, uint32_t kind, tenon_addr) noexcept;
tenon_status copy(void* self, void* stream, uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src,
                  uint64_t row_bytes, uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept;
tenon_status fill(void* self, void* stream, uint32_t dev, tenon_addr, uint32_t byte, uint64_t bytes) noexcept;
tenon_status peer(void* self, uint32_t from, uint32_t to, uint32_t* direct) noexcept;

}  // namespace tenon::cuda
