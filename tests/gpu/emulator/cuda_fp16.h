// The part of cuda_fp16.h that the backend's device code uses, for the emulator.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

struct __half {
  uint16_t bits;
};

inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
inline uint16_t __half_as_ushort(__half value) { return value.bits; }

inline float __half2float(__half value) {
  const int exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
  float magnitude = exponent ? std::ldexp(float(1024 + fraction), exponent - 25) : std::ldexp(float(fraction), -24);
  if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
  return value.bits & 0x8000 ? -magnitude : magnitude;
}

// Ties to even: scaled so that the last kept digit is a unit, then rounded by the machine.
inline __half __float2half_rn(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  const auto sign = uint16_t(word >> 16 & 0x8000);
  if (std::isnan(value)) return {uint16_t(sign | 0x7fff)};
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return {uint16_t(sign | 0x7c00)};
  if (magnitude < 0x1p-14f) return {uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24f)))};
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);
  return {uint16_t(sign | ((uint32_t(exponent + 13) << 10) + uint32_t(std::nearbyint(fraction * 2048.0f))))};
}
