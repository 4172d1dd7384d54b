// vec_math.hpp: functions of sixteen lanes. A lane's result depends on that lane alone, so a value's place in its row
// never changes its result; callers pass short rows through the same functions with unused lanes.
#pragma once

#include "vec.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// e^x within about one unit in the last place; 0 for -inf, inf above 88.73, NaN for NaN.
// x = n ln 2 + r with |r| ≤ ln 2 / 2, then the series of e^r to r^7 (its rest is below 2^-27).
TENON_INLINE F exp(F x) {
  x = max2(splat(-104.0f), min2(splat(89.0f), x));
  const F n = round1(x * splat(1.44269504f));
  F r = fma(n, splat(-0.693359375f), x);  // exact: nine bits times a small whole number
  r = fma(n, splat(2.12194440e-4f), r);
  F p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p * r, r, r) + splat(1.0f);
  return times_power(p, n);
}

TENON_INLINE F negative(F x) { return zero() - x; }
TENON_INLINE F sigmoid(F x) { return splat(1.0f) / (splat(1.0f) + exp(negative(x))); }
TENON_INLINE F silu(F x) { return x / (splat(1.0f) + exp(negative(x))); }

// x/2 × (1 + tanh u), u = √(2/π) (x + 0.044715 x³), as x / (1 + e^(-2u)): no difference of nearly equal numbers.
TENON_INLINE F gelu_tanh(F x) {
  const F inner = fma(x * x, splat(0.044715f), splat(1.0f)) * x;
  return x / (splat(1.0f) + exp(inner * splat(-1.59576912f)));
}

// Below 1/2 the convergent y (945 + 105 z + z²) / (945 + 420 z + 15 z²), z = y², of Lambert's continued fraction
// (error 1e-10), above it from e^(-2|y|).
TENON_INLINE F tanh(F y) {
  const F a = abs1(y), z = y * y, t = exp(a * splat(-2.0f));
  const F above = fma(z, z, fma(z, splat(105.0f), splat(945.0f)));
  const F below = fma(z * z, splat(15.0f), fma(z, splat(420.0f), splat(945.0f)));
  const F far = (splat(1.0f) - t) / (splat(1.0f) + t);
  return select(less(a, splat(0.5f)), y * above / below, select(less(y, zero()), negative(far), far));
}

// Sine and cosine of sixteen f32 angles of at most a few millions, within about one unit in the last place.
// The angle is reduced in f64: π/2 = kHigh + kLow with 33 bits in kHigh, so n × kHigh is exact below 2^20 turns.
TENON_INLINE void sincos(const float* angle, float* sine, float* cosine) {
  constexpr double kTurns = 0.63661977236758134308, kRound = 0x1.8p52;
  constexpr double kHigh = 1.5707963267341256, kLow = 6.077100506506192e-11;
  float r[16];
  int32_t quadrant[16];
  for (int i = 0; i < 16; ++i) {
    const double a = double(angle[i]), n = (a * kTurns + kRound) - kRound;
    r[i] = float((a - n * kHigh) - n * kLow);
    quadrant[i] = int32_t(n);
  }
  for (int i = 0; i < 16; ++i) {
    const float x = r[i], z = x * x;
    float s = fma1(z, 1.0f / 362880, -1.0f / 5040);
    s = fma1(z, s, 1.0f / 120);
    s = fma1(z, s, -1.0f / 6);
    s = fma1(z * x, s, x);
    float c = fma1(z, -1.0f / 3628800, 1.0f / 40320);
    c = fma1(z, c, -1.0f / 720);
    c = fma1(z, c, 1.0f / 24);
    c = fma1(z, c, -0.5f);
    c = fma1(z, c, 1.0f);
    const bool swap = (quadrant[i] & 1) != 0;
    const float first = swap ? c : s, second = swap ? s : c;
    sine[i] = (quadrant[i] & 2) ? -first : first;
    cosine[i] = ((quadrant[i] + 1) & 2) ? -second : second;
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
