// lanes_portable.hpp: 4 lanes in the compiler's generic 16-byte vectors, for machines without the instruction sets
// above.
#pragma once

#include <cstdint>
#include <cstring>

#define TENON_INLINE static inline __attribute__((always_inline))

namespace tenon::block::TENON_ISA {

constexpr int kLanes = 4;
constexpr int kMaxTile = 2;  // activation rows of the largest register tile
constexpr int kOddTile = 2;  // there is a tile for every number of rows up to this
constexpr bool kSignedDot8 = false;

using Bytes = uint8_t __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));
using Shorts = int16_t __attribute__((vector_size(16)));
using Words = uint16_t __attribute__((vector_size(16)));

TENON_INLINE Bytes load_bytes(const uint8_t* p) {
  Bytes x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
TENON_INLINE Ints broadcast(int32_t value) { return Ints{value, value, value, value}; }
TENON_INLINE Floats broadcast(float value) { return Floats{value, value, value, value}; }

template <int shift>
TENON_INLINE Bytes shifted(Bytes x) {
  if constexpr (shift > 0) return Bytes(Words(x) >> shift);
  if constexpr (shift < 0) return Bytes(Words(x) << -shift);
  return x;
}
TENON_INLINE Bytes masked(Bytes x, int mask) { return x & static_cast<uint8_t>(mask); }
TENON_INLINE Bytes merged(Bytes low, Bytes high, int mask) { return low | masked(high, mask); }
TENON_INLINE Bytes lookup(const uint8_t* table16, Bytes index) {
  for (int i = 0; i < 16; ++i) index[i] = table16[index[i] & 15];
  return index;
}

// Products fit 16 bits (255 × 127), their sums do not: even and odd columns are multiplied apart and widened.
template <int bits>
TENON_INLINE Ints dot(Ints sum, Bytes w, int32_t x) {
  const Ints both = broadcast(x);
  const Shorts even = Shorts(both << 8 & static_cast<int32_t>(0xff00ff00u)) >> 8;
  const Shorts odd = Shorts(both) >> 8;
  const Ints p = Ints(Shorts(Words(w) & 0xff) * even), q = Ints(Shorts(Words(w) >> 8) * odd);
  return sum + ((p << 16 >> 16) + (p >> 16)) + ((q << 16 >> 16) + (q >> 16));
}

TENON_INLINE Floats as_floats(Ints x) { return Floats(x); }
TENON_INLINE Floats zero() { return broadcast(0.0f); }
TENON_INLINE Floats mul(Floats a, Floats b) { return a * b; }
// The product is exact in double; only the sum can round twice.
TENON_INLINE Floats fma(Floats a, Floats b, Floats c) {
  using Doubles = double __attribute__((vector_size(32)));
  return __builtin_convertvector(
      __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles) + __builtin_convertvector(c, Doubles),
      Floats);
}
TENON_INLINE Floats negated(Floats a) { return -a; }
TENON_INLINE float half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
  const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
  uint32_t bits;
  std::memcpy(&bits, &tiny, 4);
  if (exponent == 31) {
    bits = 0x7f800000u | mantissa << 13;
  } else if (exponent) {
    bits = (exponent + 112) << 23 | mantissa << 13;
  }
  bits |= sign;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}
TENON_INLINE Floats load_halves(const uint8_t* p) {
  uint16_t h[4];
  std::memcpy(h, p, sizeof h);
  return Floats{half(h[0]), half(h[1]), half(h[2]), half(h[3])};
}
TENON_INLINE Floats load_brains(const uint8_t* p) {
  uint16_t b[4];
  std::memcpy(b, p, sizeof b);
  const Ints bits = {b[0] << 16, b[1] << 16, b[2] << 16, b[3] << 16};
  return Floats(bits);
}
TENON_INLINE Floats floats_of(int a, int b, int c, int d) {
  return __builtin_convertvector((Ints{a, b, c, d}), Floats);
}
TENON_INLINE Floats load_i8(const uint8_t* p) {
  return floats_of(static_cast<int8_t>(p[0]), static_cast<int8_t>(p[1]), static_cast<int8_t>(p[2]),
                   static_cast<int8_t>(p[3]));
}
TENON_INLINE Floats load_low_nibbles(const uint8_t* p) { return floats_of(p[0] & 15, p[1] & 15, p[2] & 15, p[3] & 15); }
TENON_INLINE Floats load_high_nibbles(const uint8_t* p) {
  return floats_of(p[0] >> 4, p[1] >> 4, p[2] >> 4, p[3] >> 4);
}
TENON_INLINE void store(float* p, Floats x, int n) {
  if (n > 0) std::memcpy(p, &x, static_cast<size_t>(n < kLanes ? n : kLanes) * sizeof(float));
}
TENON_INLINE void prefetch(const uint8_t*) {}

}  // namespace tenon::block::TENON_ISA
