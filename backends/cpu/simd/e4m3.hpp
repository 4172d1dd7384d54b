// e4m3.hpp: E4M3 numbers in registers. For sources built once an instruction set.
#pragma once

#include "vec.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// Sixteen numbers, 2^8 too small: moved so that the exponent ends where that of a half lies, whose bias is 8 more. A
// half holds E4M3's subnormal numbers too. The codes 0x7f and 0xff become 480, not NaN.
TENON_INLINE F load_e4m3(const uint8_t* codes) {
#if defined(TENON_ISA_avx512) || defined(TENON_ISA_avx2)
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(short(0xbfff)));
#if defined(TENON_ISA_avx512)
  return {{_mm512_cvtph_ps(half)}};
#else
  return {{_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))}};
#endif
#else
  uint16_t half[kLanes];
  for (int i = 0; i < kLanes; ++i) half[i] = uint16_t((codes[i] & 0x80) << 8 | (codes[i] & 0x7f) << 7);
  return load_f16(half);
#endif
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
