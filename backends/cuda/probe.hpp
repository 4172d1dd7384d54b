// probe.hpp: whether devices reach each other: what only a kernel can tell of a machine.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tenon::cuda {

// On `stream`: out[i] = remote[i], then remote[i] = pattern(round, i), for i < n. Some machines claim peer access and
// lose or corrupt such traffic, so the backend writes and reads a pattern before it believes them.
cudaError_t probe_exchange(uint32_t* out, uint32_t* remote, uint32_t round, uint32_t n, cudaStream_t stream);
uint32_t probe_pattern(uint32_t round, uint32_t i);

}  // namespace tenon::cuda
