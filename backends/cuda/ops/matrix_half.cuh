// matrix_half.cuh: tiles of f16 or bf16 rows in shared memory, and the ways from memory to there and from there to
// mma_half.cuh's registers.
#pragma once

#include "mma_half.cuh"

namespace tenon::cuda {

// Weights of keys are 0 … 1; f16 has more digits for them further up.
constexpr float kTileWeightScale = 32768.0f;

// A row's chunk of eight numbers, turned by the row so that the same chunk of eight rows lies in all banks.
template <int kDim>
__device__ inline int chunk_offset(int row, int chunk) {
  static_assert(kDim % 64 == 0);
  return row * kDim * 2 + ((chunk ^ (row & 7)) * 16);
}

#ifdef TENON_CUDA_IS_EMULATED
__device__ inline void copy_chunk(uint8_t* to, const uint8_t* from, bool is_wanted) {
  if (is_wanted) {
    memcpy(to, from, 16);
  } else {
    memset(to, 0, 16);
  }
}
__device__ inline void commit_copies() {}
__device__ inline void wait_for_copies() {}
__device__ inline void load_matrices(uint32_t (&to)[4], const uint8_t* row) {
  static const uint8_t* rows[32][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  rows[warp][lane] = row;
  __all_sync(kAll, 1);
  for (unsigned i = 0; i < 4; ++i) memcpy(&to[i], rows[warp][8 * i + lane / 4] + lane % 4 * 4, 4);
  __all_sync(kAll, 1);
}
__device__ inline void load_matrices_across(uint32_t (&to)[4], const uint8_t* row) {
  static const uint8_t* rows[32][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  rows[warp][lane] = row;
  __all_sync(kAll, 1);
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t pair[2];
    for (unsigned k = 0; k < 2; ++k) memcpy(&pair[k], rows[warp][8 * i + lane % 4 * 2 + k] + lane / 4 * 2, 2);
    to[i] = pair_of(pair[0], pair[1]);
  }
  __all_sync(kAll, 1);
}
#else
__device__ __forceinline__ uint32_t shared_offset(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// 16 bytes from memory, or zeros; they arrive behind wait_for_copies().
__device__ __forceinline__ void copy_chunk(uint8_t* to, const uint8_t* from, bool is_wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_offset(to)), "l"(from), "r"(is_wanted ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Four matrices of 8 rows of 8 numbers, lane l giving the address of row l % 8 of matrix l / 8; register i gets numbers 2t
// and 2t + 1 of row g of matrix i.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const uint8_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_offset(row))
               : "memory");
}
// The same of each matrix with rows and columns exchanged.
__device__ __forceinline__ void load_matrices_across(uint32_t (&to)[4], const uint8_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_offset(row))
               : "memory");
}
#endif

}  // namespace tenon::cuda
