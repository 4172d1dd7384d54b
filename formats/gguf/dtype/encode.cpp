// encode.cpp: reference encoders. The scale is computed in f32 and used unrounded for the codes; its f16 is stored.
#include <algorithm>
#include <cmath>

#include "blocks.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

// The value of largest magnitude, with its sign; the first of equals.
float extreme(const float* x) {
  float found = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(found)) found = x[i];
  }
  return found;
}

// Codes 0 … 2 × offset − 1 around `offset`: the extreme value gets code 0, whose distance to the middle is the largest.
void offset_codes(const float* x, int offset, float d, uint8_t* code) {
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  for (int i = 0; i < 32; ++i) {
    const int rounded = int(x[i] * inverse + (float(offset) + 0.5f));
    code[i] = uint8_t(std::clamp(rounded, 0, 2 * offset - 1));
  }
}

void pack_nibbles(const uint8_t* code, uint8_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = uint8_t((code[i] & 15) | (code[i + 16] & 15) << 4);
}

}  // namespace

void encode_q8_0(const float* x, uint8_t* block) {
  const float d = std::fabs(extreme(x)) / 127.0f;
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  store(block, float_to_half(d));
  for (int i = 0; i < 32; ++i) {
    block[2 + i] = uint8_t(int8_t(std::clamp(std::round(x[i] * inverse), -127.0f, 127.0f)));
  }
}

void encode_q4_0(const float* x, uint8_t* block) {
  const float d = extreme(x) / -8.0f;
  uint8_t code[32];
  offset_codes(x, 8, d, code);
  store(block, float_to_half(d));
  pack_nibbles(code, block + 2);
}

void encode_q5_0(const float* x, uint8_t* block) {
  const float d = extreme(x) / -16.0f;
  uint8_t code[32];
  offset_codes(x, 16, d, code);
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= uint32_t(code[i] >> 4) << i;
  store(block, float_to_half(d));
  store(block + 2, high);
  pack_nibbles(code, block + 6);
}

}  // namespace tenon::gguf
