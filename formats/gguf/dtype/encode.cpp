// encode.cpp: encoders of the types of 32 columns whose scale spans the block's values. It is computed in f32 and used
// unrounded for the codes; its f16 is stored.
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

// Codes 0 … top over the block's own range. Answers its step and its least value.
struct Range {
  float d, min;
};
Range range_codes(const float* x, int top, uint8_t* code) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / float(top);
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  for (int i = 0; i < 32; ++i) code[i] = uint8_t(std::clamp(int((x[i] - *low) * inverse + 0.5f), 0, top));
  return {d, *low};
}

uint32_t fifth_bits(const uint8_t* code) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= uint32_t(code[i] >> 4) << i;
  return high;
}

void pack_nibbles(const uint8_t* code, uint8_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = uint8_t((code[i] & 15) | (code[i + 16] & 15) << 4);
}

// Magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6, of two equally near ones the smaller; bit 3 is the sign, which a zero lacks.
uint8_t nearest_e2m1(float v) {
  static constexpr float kBorder[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint8_t code = 0;
  for (const float border : kBorder) code = uint8_t(code + (std::fabs(v) > border));
  return code != 0 && v < 0 ? uint8_t(code | 8) : code;
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
  store(block, float_to_half(d));
  store(block + 2, fifth_bits(code));
  pack_nibbles(code, block + 6);
}

void encode_q4_1(const float* x, uint8_t* block) {
  uint8_t code[32];
  const Range range = range_codes(x, 15, code);
  store(block, float_to_half(range.d)), store(block + 2, float_to_half(range.min));
  pack_nibbles(code, block + 4);
}

void encode_q5_1(const float* x, uint8_t* block) {
  uint8_t code[32];
  const Range range = range_codes(x, 31, code);
  store(block, float_to_half(range.d)), store(block + 2, float_to_half(range.min));
  store(block + 4, fifth_bits(code));
  pack_nibbles(code, block + 8);
}

// The exponent that keeps the largest magnitude below 8 steps, where 6 is the last level, or the next one, which spans it
// all: whichever has the smaller error.
void encode_mxfp4(const float* x, uint8_t* block) {
  const float largest = std::fabs(extreme(x));
  int exponent = 0;
  if (largest > 0) std::frexp(largest, &exponent);  // largest < 2^exponent
  float least = INFINITY;
  for (const int e : {exponent - 3 + 127, exponent - 2 + 127}) {
    uint8_t trial[17] = {uint8_t(std::clamp(e, 0, 254))};
    uint8_t code[32];
    float back[32], error = 0;
    const float inverse = std::ldexp(1.0f, 127 - trial[0]);
    for (int i = 0; i < 32; ++i) code[i] = nearest_e2m1(x[i] * inverse);
    pack_nibbles(code, trial + 1);
    decode_mxfp4(trial, back);
    for (int i = 0; i < 32; ++i) error += (x[i] - back[i]) * (x[i] - back[i]);
    if (error < least) least = error, std::copy(trial, trial + 17, block);
  }
}

}  // namespace tenon::gguf
