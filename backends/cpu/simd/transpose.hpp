// transpose.hpp: sixteen rows to sixteen columns. For sources built once an instruction set.
#pragma once

#include "vec.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// to[i × to_step + lane] = from[lane × from_step + i] for i, lane < 16. All numbers are only moved.
TENON_INLINE void transpose16(const float* from, int64_t from_step, float* to, int64_t to_step) {
#if defined(TENON_ISA_avx512)
  __m512 a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(from + i * from_step);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]), b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44), a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44), a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512 low0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), high0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
    const __m512 low1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
    const __m512 high1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
    _mm512_storeu_ps(to + i * to_step, _mm512_shuffle_f32x4(low0, low1, 0x88));
    _mm512_storeu_ps(to + (i + 4) * to_step, _mm512_shuffle_f32x4(high0, high1, 0x88));
    _mm512_storeu_ps(to + (i + 8) * to_step, _mm512_shuffle_f32x4(low0, low1, 0xdd));
    _mm512_storeu_ps(to + (i + 12) * to_step, _mm512_shuffle_f32x4(high0, high1, 0xdd));
  }
#else
  for (int i = 0; i < 16; ++i)
    for (int lane = 0; lane < 16; ++lane) to[i * to_step + lane] = from[lane * from_step + i];
#endif
}

// Turns n decoded rows [n][k] into a block [k][16]; absent rows are zero.
inline void pack_block(const float* rows, int64_t n, int64_t k, float* block) {
  int64_t c = 0;
  if (n == kLanes) {
    for (; c + kLanes <= k; c += kLanes) transpose16(rows + c, k, block + c * kLanes, kLanes);
  }
  for (; c < k; ++c)
    for (int64_t lane = 0; lane < kLanes; ++lane) block[c * kLanes + lane] = lane < n ? rows[lane * k + c] : 0.0f;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
