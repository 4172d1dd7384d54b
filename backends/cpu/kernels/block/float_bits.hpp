// float_bits.hpp: numbers as their bits; of each instruction set its own, so that no code of one is linked into another.
#pragma once

#include <cstdint>
#include <cstring>

namespace tenon::block::TENON_ISA {
namespace {

// Adding 1.5 × 2^23 rounds to a whole number, ties to even, and leaves it in the low bits.
constexpr float kMagic = 12582912.0f;
constexpr int32_t kMagicBits = 0x4b400000;

inline float float_of(int32_t bits) {
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}
inline int32_t bits_of(float value) {
  int32_t out;
  std::memcpy(&out, &value, 4);
  return out;
}

}  // namespace
}  // namespace tenon::block::TENON_ISA
