// lanes_avx2.hpp: 8 lanes a register; a panel is walked twice, lanes 0 … 7 and 8 … 15.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define TENON_INLINE static inline __attribute__((always_inline))

namespace tenon::block::TENON_ISA {

constexpr int kLanes = 8;
constexpr int kMaxTile = 4;         // activation rows of the largest register tile
constexpr int kOddTile = 4;         // there is a tile for every number of rows up to this
constexpr bool kSignedDot8 = true;  // dot<8> takes its weights with their sign, so they need no offset

using Bytes = __m256i;
using Ints = __m256i;
using Floats = __m256;

TENON_INLINE Bytes load_bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
TENON_INLINE Ints broadcast(int32_t value) { return _mm256_set1_epi32(value); }
TENON_INLINE Floats broadcast(float value) { return _mm256_set1_ps(value); }

template <int shift>
TENON_INLINE Bytes shifted(Bytes x) {
  if constexpr (shift > 0) return _mm256_srli_epi16(x, shift);
  if constexpr (shift < 0) return _mm256_slli_epi16(x, -shift);
  return x;
}
TENON_INLINE Bytes masked(Bytes x, int mask) { return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(mask))); }
TENON_INLINE Bytes merged(Bytes low, Bytes high, int mask) { return _mm256_or_si256(low, masked(high, mask)); }
TENON_INLINE Bytes lookup(const uint8_t* table16, Bytes index) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table16));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

// vpmaddubsw adds two products in 16 bits and saturates. Below 8 bits nothing can overflow (2 × 127 × 127); 8-bit
// weights go in as |w| ≤ 128 against sign(w) × x, at most 2 × 128 × 127 = 32512.
template <int bits>
TENON_INLINE Ints dot(Ints sum, Bytes w, int32_t x) {
  Bytes a = _mm256_set1_epi32(x);
  if constexpr (bits == 8) {
    w = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
    a = _mm256_sign_epi8(a, w);
    w = _mm256_abs_epi8(w);
  }
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)));
}

TENON_INLINE Floats as_floats(Ints x) { return _mm256_castsi256_ps(x); }
TENON_INLINE Floats zero() { return _mm256_setzero_ps(); }
TENON_INLINE Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
TENON_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
TENON_INLINE Floats negated(Floats a) { return _mm256_sub_ps(_mm256_set1_ps(-0.0f), a); }

TENON_INLINE __m128i load8(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
TENON_INLINE Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TENON_INLINE Floats load_brains(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
TENON_INLINE Floats load_i8(const uint8_t* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p))); }
TENON_INLINE Floats load_low_nibbles(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvtepu8_epi32(load8(p)), _mm256_set1_epi32(15)));
}
TENON_INLINE Floats load_high_nibbles(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load8(p)), 4));
}
TENON_INLINE void store(float* p, Floats x, int n) {
  if (n >= kLanes) {
    _mm256_storeu_ps(p, x);
  } else if (n > 0) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane), x);
  }
}
TENON_INLINE void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace tenon::block::TENON_ISA
