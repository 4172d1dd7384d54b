// blocks_32.cpp: types whose block holds 32 columns (64 for nvfp4). Byte j of the codes holds column j in its low and
// column j + 16 in its high four bits.
#include <cmath>

#include "blocks.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

int nibble(const uint8_t* codes, int column) { return codes[column % 16] >> (column < 16 ? 0 : 4) & 15; }

// Half of 2^(e − 127), as the doubled e2m1 codes need it; the two lowest exponents give subnormal numbers.
float half_e8m0(uint8_t exponent) {
  if (exponent < 2) return std::bit_cast<float>(0x00200000u << exponent);
  return std::bit_cast<float>(uint32_t(exponent - 1) << 23);
}

// Half of an e4m3 magnitude. 0x7f counts as 0, and the sign bit is ignored, as the format's reference has it.
float half_ue4m3(uint8_t code) {
  if (code == 0x7f) return 0.0f;
  const int exponent = code >> 3 & 15, fraction = code & 7;
  return exponent == 0 ? float(fraction) * 0x1p-10f : std::ldexp(1.0f + float(fraction) / 8, exponent - 8);
}

}  // namespace

void decode_q4_0(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) y[i] = d * float(nibble(block + 2, i) - 8);
}

void decode_q4_1(const uint8_t* block, float* y) {
  const float d = load_half(block), m = load_half(block + 2);
  for (int i = 0; i < 32; ++i) y[i] = d * float(nibble(block + 4, i)) + m;
}

void decode_q5_0(const uint8_t* block, float* y) {
  const float d = load_half(block);
  const uint32_t high = load<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) y[i] = d * float((nibble(block + 6, i) | int(high >> i & 1) << 4) - 16);
}

void decode_q5_1(const uint8_t* block, float* y) {
  const float d = load_half(block), m = load_half(block + 2);
  const uint32_t high = load<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i) y[i] = d * float(nibble(block + 8, i) | int(high >> i & 1) << 4) + m;
}

void decode_q8_0(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) y[i] = d * float(int8_t(block[2 + i]));
}

void decode_iq4_nl(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) y[i] = d * float(kNonLinear4[nibble(block + 2, i)]);
}

void decode_mxfp4(const uint8_t* block, float* y) {
  const float d = half_e8m0(block[0]);
  for (int i = 0; i < 32; ++i) y[i] = d * float(kE2m1Doubled[nibble(block + 1, i)]);
}

// Four groups of 16 columns with a scale each; inside a group byte j holds columns j and j + 8.
void decode_nvfp4(const uint8_t* block, float* y) {
  for (int group = 0; group < 4; ++group) {
    const float d = half_ue4m3(block[group]);
    const uint8_t* codes = block + 4 + 8 * group;
    for (int i = 0; i < 16; ++i) {
      y[16 * group + i] = d * float(kE2m1Doubled[codes[i % 8] >> (i < 8 ? 0 : 4) & 15]);
    }
  }
}

}  // namespace tenon::gguf
