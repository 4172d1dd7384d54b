// mma.cuh: products of small matrices by a warp: of integers, exact, and of f32 numbers of eleven bits. With g = lane / 4
// and t = lane % 4, a lane has of
//   A, 16 rows × K: registers 0 and 2 (four codes, or one number) of row g, 1 and 3 of row g + 8
//   B, K × 8: registers 0 and 1 of column g
//   C, 16 × 8: columns 2t and 2t + 1 of row g, then of row g + 8
// Along K, A's registers 0 and 1 go with B's register 0, and 2 and 3 with 1; which codes the lanes t share out among
// themselves is the caller's choice, the same for both. The k16 form has A's registers 0 and 1 and B's 0 alone.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

#ifdef TENON_CUDA_IS_EMULATED
// What the hardware does, by words that the lanes of a warp leave for each other.
template <bool is_signed, int kHalves>
__device__ inline void mma_codes(int (&c)[4], const uint32_t* a, const uint32_t* b) {
  static uint32_t left[32][kWarp][4], right[32][kWarp][2];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  for (int i = 0; i < 2 * kHalves; ++i) left[warp][lane][i] = a[i];
  for (int i = 0; i < kHalves; ++i) right[warp][lane][i] = b[i];
  __all_sync(kAll, 1);
  for (int i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 4; ++k)
      for (int half = 0; half < kHalves; ++half) {
        const uint32_t x = left[warp][4 * g + k][2 * half + i / 2], y = right[warp][4 * (2 * t + i % 2) + k][half];
        for (int byte = 0; byte < 4; ++byte) {
          const int code = is_signed ? int(int8_t(x >> 8 * byte)) : int(uint8_t(x >> 8 * byte));
          c[i] += code * int(int8_t(y >> 8 * byte));
        }
      }
  __all_sync(kAll, 1);
}
template <bool is_signed>
__device__ inline void mma_k32(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  mma_codes<is_signed, 2>(c, a, b);
}
template <bool is_signed>
__device__ inline void mma_k16(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  const uint32_t a[2] = {a0, a1};
  mma_codes<is_signed, 1>(c, a, &b0);
}
__device__ inline void mma_floats(float (&c)[4], const float (&a)[4], float b0, float b1) {
  static float left[32][kWarp][4], right[32][kWarp][2];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) left[warp][lane][i] = a[i];
  right[warp][lane][0] = b0, right[warp][lane][1] = b1;
  __all_sync(kAll, 1);
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half)
      for (unsigned k = 0; k < 4; ++k)
        c[i] += left[warp][4 * g + k][2 * half + i / 2] * right[warp][4 * (2 * t + unsigned(i) % 2) + k][half];
  __all_sync(kAll, 1);
}
#else
// c += A B, codes of B signed, those of A signed or not.
template <bool is_signed>
__device__ __forceinline__ void mma_k32(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (is_signed) {
    asm(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm(
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
template <bool is_signed>
__device__ __forceinline__ void mma_k16(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  if constexpr (is_signed) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
  }
}
// c += A B for numbers whose lowest thirteen bits are 0: A 16 × 8, B 8 × 8.
__device__ __forceinline__ void mma_floats(float (&c)[4], const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}
#endif

}  // namespace tenon::cuda
