// mma_half.cuh: c += A B by a warp, A 16 × 16 and B 16 × 8 in f16 or bf16, sums in f32. With g = lane / 4 and t = lane % 4,
// a lane has of
//   A: register 0 row g, columns 2t and 2t + 1; 1 row g + 8; 2 and 3 the same rows, columns 8 + 2t and 9 + 2t
//   B: register 0 rows 2t and 2t + 1 of column g; 1 rows 8 + 2t and 9 + 2t
//   C: columns 2t and 2t + 1 of row g, then of row g + 8
// The first of two numbers lies in a register's lower half. Which 16 numbers of K are meant is the caller's choice, the
// same for A and B.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

template <bool is_bf16>
__device__ inline uint16_t to_half(float value) {
  return is_bf16 ? float_to_bf16(value) : float_to_half(value);
}
template <bool is_bf16>
__device__ inline float from_half(uint16_t bits) {
  return is_bf16 ? bf16_to_float(bits) : half_to_float(bits);
}
__device__ inline uint32_t pair_of(uint16_t first, uint16_t second) { return first | uint32_t(second) << 16; }
// Two numbers as `high` + `low`, each rounded: 22 digits in f16 (of numbers that lie in its range), 16 in bf16.
template <bool is_bf16>
__device__ inline void split_pair(float x, float y, uint32_t& high, uint32_t& low) {
  const uint16_t hx = to_half<is_bf16>(x), hy = to_half<is_bf16>(y);
  high = pair_of(hx, hy);
  low = pair_of(to_half<is_bf16>(x - from_half<is_bf16>(hx)), to_half<is_bf16>(y - from_half<is_bf16>(hy)));
}
// The first, or second, numbers of two registers side by side.
__device__ inline uint32_t firsts(uint32_t a, uint32_t b) { return (a & 0xffffu) | b << 16; }
__device__ inline uint32_t seconds(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

#ifdef TENON_CUDA_IS_EMULATED
template <bool is_bf16>
__device__ inline void mma_half(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  static float left[32][kWarp][8], right[32][kWarp][4];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const uint32_t b[2] = {b0, b1};
  for (int i = 0; i < 8; ++i) left[warp][lane][i] = from_half<is_bf16>(uint16_t(a[i / 2] >> 16 * (i % 2)));
  for (int i = 0; i < 4; ++i) right[warp][lane][i] = from_half<is_bf16>(uint16_t(b[i / 2] >> 16 * (i % 2)));
  __all_sync(kAll, 1);
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half)
      for (unsigned k = 0; k < 8; ++k)
        c[i] += left[warp][4 * g + k / 2][2 * (2 * half + i / 2) + k % 2] *
                right[warp][4 * (2 * t + unsigned(i) % 2) + k / 2][2 * half + k % 2];
  __all_sync(kAll, 1);
}
#else
template <bool is_bf16>
__device__ __forceinline__ void mma_half(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (is_bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
#endif

}  // namespace tenon::cuda
