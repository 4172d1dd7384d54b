// lanes_avx512.hpp: 16 lanes in one register.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define TENON_INLINE static inline __attribute__((always_inline))

namespace tenon::block::TENON_ISA {

constexpr int kLanes = 16;    // output rows a register
constexpr int kMaxTile = 12;  // activation rows of the largest register tile
constexpr int kOddTile = 8;   // there is a tile for every number of rows up to this
constexpr bool kSignedDot8 = false;

using Bytes = __m512i;
using Ints = __m512i;
using Floats = __m512;

TENON_INLINE Bytes load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
TENON_INLINE Ints broadcast(int32_t value) { return _mm512_set1_epi32(value); }
TENON_INLINE Floats broadcast(float value) { return _mm512_set1_ps(value); }

// Bits [shift, shift + …) of each byte that `mask` keeps after the shift; negative shifts go left.
template <int shift>
TENON_INLINE Bytes shifted(Bytes x) {
  if constexpr (shift > 0) return _mm512_srli_epi16(x, shift);
  if constexpr (shift < 0) return _mm512_slli_epi16(x, -shift);
  return x;
}
TENON_INLINE Bytes masked(Bytes x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(mask))); }
// low | (high & mask) in one instruction.
TENON_INLINE Bytes merged(Bytes low, Bytes high, int mask) {
  return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(static_cast<char>(mask)), 0xf8);
}
TENON_INLINE Bytes lookup(const uint8_t* table16, Bytes index) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table16));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}

// Four products of unsigned weight bytes and signed activation bytes a lane, added to `sum`. `bits` is the width of w.
template <int bits>
TENON_INLINE Ints dot(Ints sum, Bytes w, int32_t x) {
  return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x));
}

TENON_INLINE Floats as_floats(Ints x) { return _mm512_castsi512_ps(x); }
TENON_INLINE Floats zero() { return _mm512_setzero_ps(); }
TENON_INLINE Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
TENON_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
TENON_INLINE Floats negated(Floats a) { return _mm512_sub_ps(_mm512_set1_ps(-0.0f), a); }

TENON_INLINE Floats load_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TENON_INLINE Floats load_brains(const uint8_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
TENON_INLINE __m128i load16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
TENON_INLINE Floats load_i8(const uint8_t* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(p))); }
TENON_INLINE Floats load_low_nibbles(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvtepu8_epi32(load16(p)), _mm512_set1_epi32(15)));
}
TENON_INLINE Floats load_high_nibbles(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(load16(p)), 4));
}
// The first n lanes.
TENON_INLINE void store(float* p, Floats x, int n) {
  if (n >= kLanes) {
    _mm512_storeu_ps(p, x);
  } else if (n > 0) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x);
  }
}
TENON_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace tenon::block::TENON_ISA
