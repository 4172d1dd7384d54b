// vec.hpp: sixteen f32 lanes on every instruction set: one 512-bit register, two 256-bit or four 128-bit ones.
//
// Only for sources that are built once an instruction set. Everything has internal linkage, and no template of the
// standard library is used, so that no wide code leaks into functions that the linker shares between variants.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(TENON_ISA_avx512) || defined(TENON_ISA_avx2)
// GCC 12 warns about its own headers: their "undefined" vectors are left uninitialized on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#define TENON_INLINE inline __attribute__((always_inline))
#define TENON_FLATTEN __attribute__((flatten))  // lambdas with vector arguments must not become calls

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int kLanes = 16;

#if defined(TENON_ISA_avx512)
using Part = __m512;
#elif defined(TENON_ISA_avx2)
using Part = __m256;
#else
typedef float Part __attribute__((vector_size(16)));
typedef int32_t IntPart __attribute__((vector_size(16)));
#endif
constexpr int kPartLanes = int(sizeof(Part) / sizeof(float));
constexpr int kParts = kLanes / kPartLanes;

struct F {
  Part p[kParts];
};

#define TENON_EACH_PART _Pragma("GCC unroll 4") for (int i = 0; i < kParts; ++i)

TENON_INLINE F operator+(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] + b.p[i];
  return a;
}
TENON_INLINE F operator-(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] - b.p[i];
  return a;
}
TENON_INLINE F operator*(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] * b.p[i];
  return a;
}
TENON_INLINE F operator/(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] / b.p[i];
  return a;
}

// Scalar conversions, round to nearest even; NaN stays NaN.
TENON_INLINE float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
TENON_INLINE uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
TENON_INLINE float bf16_to_f32(uint16_t half) { return from_bits(uint32_t(half) << 16); }
TENON_INLINE uint16_t f32_to_bf16(float value) {
  const uint32_t bits = to_bits(value);
  if (value != value) return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
TENON_INLINE float f16_to_f32(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | ((rest & 0x3ff) << 13));
  // A subnormal half is a multiple of 2^-24, and every such product is exact.
  if (rest < 0x400) return from_bits(sign | to_bits(float(rest) * 0x1p-24f));
  return from_bits(sign | ((rest << 13) + 0x38000000));
}
TENON_INLINE uint16_t f32_to_f16(float value) {
  const uint32_t bits = to_bits(value), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return uint16_t(sign | 0x7e00 | ((rest >> 13) & 0x3ff));
  if (rest >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and more round to infinity
  if (rest < 0x38800000) {  // below 2^-14: adding 1/2 leaves the rounded multiple of 2^-24
    return uint16_t(sign | (to_bits(from_bits(rest) + 0.5f) - 0x3f000000));
  }
  return uint16_t(sign | ((rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13));
}

#if defined(TENON_ISA_avx512)

typedef __mmask16 Mask;

TENON_INLINE F zero() { return {{_mm512_setzero_ps()}}; }
TENON_INLINE F splat(float x) { return {{_mm512_set1_ps(x)}}; }
TENON_INLINE F load(const float* p) { return {{_mm512_loadu_ps(p)}}; }
TENON_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x.p[0]); }
TENON_INLINE Mask first(int64_t n) { return n >= 16 ? Mask(0xffff) : Mask((1u << n) - 1); }
TENON_INLINE F load_first(const float* p, int64_t n) { return {{_mm512_maskz_loadu_ps(first(n), p)}}; }
TENON_INLINE void store_first(float* p, F x, int64_t n) { _mm512_mask_storeu_ps(p, first(n), x.p[0]); }
TENON_INLINE F fma(F a, F b, F c) { return {{_mm512_fmadd_ps(a.p[0], b.p[0], c.p[0])}}; }
TENON_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// The second operand where either is NaN.
TENON_INLINE F max2(F a, F b) { return {{_mm512_max_ps(a.p[0], b.p[0])}}; }
TENON_INLINE F min2(F a, F b) { return {{_mm512_min_ps(a.p[0], b.p[0])}}; }
TENON_INLINE F abs1(F a) { return {{_mm512_abs_ps(a.p[0])}}; }
TENON_INLINE F round1(F a) { return {{_mm512_roundscale_ps(a.p[0], 8)}}; }
TENON_INLINE Mask less(F a, F b) { return _mm512_cmp_ps_mask(a.p[0], b.p[0], _CMP_LT_OQ); }
TENON_INLINE F select(Mask m, F a, F b) { return {{_mm512_mask_blend_ps(m, b.p[0], a.p[0])}}; }
TENON_INLINE F times_power(F x, F n) { return {{_mm512_scalef_ps(x.p[0], n.p[0])}}; }
TENON_INLINE F load_f16(const uint16_t* p) {
  return {{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}};
}
TENON_INLINE F load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))}};
}
TENON_INLINE void store_f16(uint16_t* p, F x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x.p[0], 8));
}
// By integer arithmetic: the instruction for it treats subnormal numbers as zero.
TENON_INLINE void store_bf16(uint16_t* p, F x) {
  const __m512i bits = _mm512_castps_si512(x.p[0]), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i out = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const Mask nan = _mm512_cmp_ps_mask(x.p[0], x.p[0], _CMP_UNORD_Q);
  out = _mm512_mask_or_epi32(out, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(out));
}
// Lanes hold whole numbers of at most 127; answers their sum.
TENON_INLINE int store_codes(int8_t* p, F x) {
  const __m512i codes = _mm512_cvtps_epi32(x.p[0]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(codes));
  return _mm512_reduce_add_epi32(codes);
}
TENON_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#elif defined(TENON_ISA_avx2)

struct Mask {
  __m256 p[2];
};

TENON_INLINE F zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
TENON_INLINE F splat(float x) { return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
TENON_INLINE F load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
TENON_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.p[0]), _mm256_storeu_ps(p + 8, x.p[1]); }
TENON_INLINE Mask first(int64_t n) {
  const __m256i count = _mm256_set1_epi32(int(n > 16 ? 16 : n)), low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {{_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)),
           _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, _mm256_add_epi32(low, _mm256_set1_epi32(8))))}};
}
TENON_INLINE F load_first(const float* p, int64_t n) {
  const Mask m = first(n);
  return {{_mm256_maskload_ps(p, _mm256_castps_si256(m.p[0])), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.p[1]))}};
}
TENON_INLINE void store_first(float* p, F x, int64_t n) {
  const Mask m = first(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.p[0]), x.p[0]);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.p[1]), x.p[1]);
}
TENON_INLINE F fma(F a, F b, F c) {
  TENON_EACH_PART a.p[i] = _mm256_fmadd_ps(a.p[i], b.p[i], c.p[i]);
  return a;
}
TENON_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// The second operand where either is NaN.
TENON_INLINE F max2(F a, F b) {
  TENON_EACH_PART a.p[i] = _mm256_max_ps(a.p[i], b.p[i]);
  return a;
}
TENON_INLINE F min2(F a, F b) {
  TENON_EACH_PART a.p[i] = _mm256_min_ps(a.p[i], b.p[i]);
  return a;
}
TENON_INLINE F abs1(F a) {
  TENON_EACH_PART a.p[i] = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.p[i]);
  return a;
}
TENON_INLINE F round1(F a) {
  TENON_EACH_PART a.p[i] = _mm256_round_ps(a.p[i], 8);
  return a;
}
TENON_INLINE Mask less(F a, F b) {
  Mask m;
  TENON_EACH_PART m.p[i] = _mm256_cmp_ps(a.p[i], b.p[i], _CMP_LT_OQ);
  return m;
}
TENON_INLINE F select(Mask m, F a, F b) {
  TENON_EACH_PART a.p[i] = _mm256_blendv_ps(b.p[i], a.p[i], m.p[i]);
  return a;
}
// x × 2^n for |n| ≤ 250, in two steps so that subnormal results round once more at most.
TENON_INLINE F times_power(F x, F n) {
  TENON_EACH_PART {
    const __m256i whole = _mm256_cvtps_epi32(n.p[i]), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127), rest = _mm256_sub_epi32(whole, half);
    x.p[i] = _mm256_mul_ps(x.p[i], _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    x.p[i] = _mm256_mul_ps(x.p[i], _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
  }
  return x;
}
TENON_INLINE F load_f16(const uint16_t* p) {
  return {{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
           _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))}};
}
TENON_INLINE F load_bf16(const uint16_t* p) {
  F x;
  TENON_EACH_PART {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8 * i)));
    x.p[i] = _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  return x;
}
TENON_INLINE void store_f16(uint16_t* p, F x) {
  TENON_EACH_PART _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8 * i), _mm256_cvtps_ph(x.p[i], 0));
}
TENON_INLINE void store_bf16(uint16_t* p, F x) {
  float values[16];
  store(values, x);
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(values[i]);
}
// Lanes hold whole numbers of at most 127; answers their sum.
TENON_INLINE int store_codes(int8_t* p, F x) {
  const __m256i a = _mm256_cvtps_epi32(x.p[0]), b = _mm256_cvtps_epi32(x.p[1]);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, high));
  const __m256i pairs = _mm256_add_epi32(a, b);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
TENON_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

#else  // portable

struct Mask {
  IntPart p[kParts];
};

TENON_INLINE F splat(float x) {
  F a;
  TENON_EACH_PART a.p[i] = Part{x, x, x, x};
  return a;
}
TENON_INLINE F zero() { return splat(0.0f); }
TENON_INLINE F load(const float* p) {
  F a;
  memcpy(&a, p, sizeof a);
  return a;
}
TENON_INLINE void store(float* p, F x) { memcpy(p, &x, sizeof x); }
TENON_INLINE Mask first(int64_t n) {
  Mask m;
  const int32_t count = int32_t(n > 16 ? 16 : n);
  TENON_EACH_PART m.p[i] = IntPart{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3} < IntPart{count, count, count, count};
  return m;
}
TENON_INLINE F load_first(const float* p, int64_t n) {
  F a = zero();
  memcpy(&a, p, sizeof(float) * size_t(n > 16 ? 16 : n));
  return a;
}
TENON_INLINE void store_first(float* p, F x, int64_t n) { memcpy(p, &x, sizeof(float) * size_t(n > 16 ? 16 : n)); }
// Rounds twice: the baseline has no fused instruction.
TENON_INLINE F fma(F a, F b, F c) { return a * b + c; }
TENON_INLINE float fma1(float a, float b, float c) { return a * b + c; }
// The second operand where either is NaN.
TENON_INLINE F max2(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] > b.p[i] ? a.p[i] : b.p[i];
  return a;
}
TENON_INLINE F min2(F a, F b) {
  TENON_EACH_PART a.p[i] = a.p[i] < b.p[i] ? a.p[i] : b.p[i];
  return a;
}
TENON_INLINE F abs1(F a) {
  TENON_EACH_PART a.p[i] = Part(IntPart(a.p[i]) & IntPart{0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff});
  return a;
}
// For |a| < 2^22, NaN and infinities.
TENON_INLINE F round1(F a) {
  const F big = splat(0x1.8p23f);
  return (a + big) - big;
}
TENON_INLINE Mask less(F a, F b) {
  Mask m;
  TENON_EACH_PART m.p[i] = a.p[i] < b.p[i];
  return m;
}
TENON_INLINE F select(Mask m, F a, F b) {
  TENON_EACH_PART a.p[i] = m.p[i] ? a.p[i] : b.p[i];
  return a;
}
// x × 2^n for |n| ≤ 250, in two steps so that subnormal results round once more at most.
TENON_INLINE F times_power(F x, F n) {
  // A lane that is NaN has no whole number; any will do, since x is NaN there too.
  n = max2(splat(-250.0f), min2(n, splat(250.0f)));
  TENON_EACH_PART {
    const IntPart whole = __builtin_convertvector(n.p[i], IntPart), half = whole >> 1;
    x.p[i] = x.p[i] * Part((half + 127) << 23);
    x.p[i] = x.p[i] * Part((whole - half + 127) << 23);
  }
  return x;
}
typedef uint16_t HalfPart __attribute__((vector_size(8)));
TENON_INLINE IntPart widen(const uint16_t* p) {
  HalfPart half;
  memcpy(&half, p, sizeof half);
  return __builtin_convertvector(half, IntPart);
}
// The exponent moves by 2^112, which also makes subnormal numbers normal; that of inf and NaN is then filled with ones.
TENON_INLINE F load_f16(const uint16_t* p) {
  F x;
  TENON_EACH_PART {
    const IntPart half = widen(p + 4 * i), rest = half & 0x7fff, sign = (half & 0x8000) << 16;
    const IntPart special = (rest > 0x7bff) & 0x7f800000;
    x.p[i] = Part(IntPart(Part(rest << 13) * 0x1p112f) | special | sign);
  }
  return x;
}
TENON_INLINE F load_bf16(const uint16_t* p) {
  F x;
  TENON_EACH_PART x.p[i] = Part(widen(p + 4 * i) << 16);
  return x;
}
TENON_INLINE void store_f16(uint16_t* p, F x) {
  float values[16];
  store(values, x);
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(values[i]);
}
TENON_INLINE void store_bf16(uint16_t* p, F x) {
  float values[16];
  store(values, x);
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(values[i]);
}
// Lanes hold whole numbers of at most 127; answers their sum.
TENON_INLINE int store_codes(int8_t* p, F x) {
  float values[16];
  store(values, x);
  int total = 0;
  for (int i = 0; i < 16; ++i) {
    const int code = int(values[i]);
    p[i] = int8_t(code);
    total += code;
  }
  return total;
}
TENON_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

#endif

// 16-bit rows whose last vector is short.
TENON_INLINE F load_f16_first(const uint16_t* p, int64_t n) {
  if (n >= 16) return load_f16(p);
  uint16_t values[16] = {};
  memcpy(values, p, size_t(n) * 2);
  return load_f16(values);
}
TENON_INLINE F load_bf16_first(const uint16_t* p, int64_t n) {
  if (n >= 16) return load_bf16(p);
  uint16_t values[16] = {};
  memcpy(values, p, size_t(n) * 2);
  return load_bf16(values);
}
TENON_INLINE void store_f16_first(uint16_t* p, F x, int64_t n) {
  if (n >= 16) return store_f16(p, x);
  uint16_t values[16];
  store_f16(values, x);
  memcpy(p, values, size_t(n) * 2);
}
TENON_INLINE void store_bf16_first(uint16_t* p, F x, int64_t n) {
  if (n >= 16) return store_bf16(p, x);
  uint16_t values[16];
  store_bf16(values, x);
  memcpy(p, values, size_t(n) * 2);
}

// One tree for every variant: lanes 8 apart, then 4, 2, 1.
TENON_INLINE float sum(F x) {
#if defined(TENON_ISA_avx512)
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.p[0]), 1));
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.p[0]), high);
#elif defined(TENON_ISA_avx2)
  const __m256 eight = _mm256_add_ps(x.p[0], x.p[1]);
#endif
#if defined(TENON_ISA_avx512) || defined(TENON_ISA_avx2)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  const Part four = (x.p[0] + x.p[2]) + (x.p[1] + x.p[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
#endif
}
TENON_INLINE float largest(F x) {
#if defined(TENON_ISA_avx512)
  return _mm512_reduce_max_ps(x.p[0]);
#else
  float values[16];
  store(values, x);
  for (int step = 8; step >= 1; step /= 2)
    for (int i = 0; i < step; ++i) values[i] = values[i] > values[i + step] ? values[i] : values[i + step];
  return values[0];
#endif
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
