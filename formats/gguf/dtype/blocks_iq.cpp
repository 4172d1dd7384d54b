// blocks_iq.cpp: super-blocks of 256 columns whose codes name vectors of a codebook (iq1, iq2, iq3).
#include <bit>

#include "blocks.hpp"
#include "grids.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

// Seven sign bits; the eighth makes the number of ones even.
uint8_t even_signs(uint32_t seven) { return uint8_t(seven | uint32_t(std::popcount(seven) & 1) << 7); }

// `signs` holds one bit a column, lowest first.
template <size_t Width>
void put_signed(float scale, const std::array<int8_t, Width>& vector, uint32_t signs, float* y) {
  for (size_t i = 0; i < Width; ++i) {
    const float value = scale * float(vector[i]);
    y[i] = signs >> i & 1 ? -value : value;
  }
}

// The iq1 codes are −1, 0, 1, all moved by an eighth up or down.
void put_shifted(float scale, const std::array<int8_t, 8>& vector, bool down, float* y) {
  const float shift = down ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i) y[i] = scale * (float(vector[size_t(i)]) + shift);
}

}  // namespace

// A group of 32: four bytes of codes, then a word of four 7-bit sign fields and a 4-bit scale.
void decode_iq2_xxs(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int group = 0; group < 8; ++group, y += 32) {
    const uint8_t* codes = block + 2 + 8 * group;
    const uint32_t word = load<uint32_t>(codes + 4);
    const float scale = d * (0.5f + float(word >> 28)) * 0.25f;
    for (int part = 0; part < 4; ++part) {
      put_signed(scale, iq2_xxs_grid()[codes[part]], even_signs(word >> 7 * part & 127), y + 8 * part);
    }
  }
}

// 32 words of a 9-bit code and a 7-bit sign field; a 4-bit scale for 16 columns.
void decode_iq2_xs(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int part = 0; part < 32; ++part, y += 8) {
    const uint16_t word = load<uint16_t>(block + 2 + 2 * part);
    const int level = block[66 + part / 4] >> (part / 2 % 2 * 4) & 15;
    put_signed(d * (0.5f + float(level)) * 0.25f, iq2_xs_grid()[word & 511], even_signs(word >> 9), y);
  }
}

// Code bytes, sign bytes, two high code bits a part, a 4-bit scale for 16 columns.
void decode_iq2_s(const uint8_t* block, float* y) {
  const uint8_t *codes = block + 2, *signs = block + 34, *high = block + 66, *scales = block + 74;
  const float d = load_half(block);
  for (int part = 0; part < 32; ++part, y += 8) {
    const size_t code = codes[part] | size_t(high[part / 4] >> (part % 4 * 2) & 3) << 8;
    const int level = scales[part / 4] >> (part / 2 % 2 * 4) & 15;
    put_signed(d * (0.5f + float(level)) * 0.25f, iq2_s_grid()[code], signs[part], y);
  }
}

// 64 code bytes, then for each 32 columns a word of four 7-bit sign fields and a 4-bit scale.
void decode_iq3_xxs(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int group = 0; group < 8; ++group, y += 32) {
    const uint8_t* codes = block + 2 + 8 * group;
    const uint32_t word = load<uint32_t>(block + 66 + 4 * group);
    const float scale = d * (0.5f + float(word >> 28)) * 0.5f;
    for (int part = 0; part < 8; ++part) {
      const uint32_t signs = even_signs(word >> 7 * (part / 2) & 127);
      put_signed(scale, iq3_xxs_grid()[codes[part]], signs >> part % 2 * 4, y + 4 * part);
    }
  }
}

void decode_iq3_s(const uint8_t* block, float* y) {
  const uint8_t *codes = block + 2, *high = block + 66, *signs = block + 74, *scales = block + 106;
  const float d = load_half(block);
  for (int part = 0; part < 64; ++part, y += 4) {
    const size_t code = codes[part] | size_t(high[part / 8] >> part % 8 & 1) << 8;
    const int level = scales[part / 16] >> (part / 8 % 2 * 4) & 15;
    put_signed(d * float(1 + 2 * level), iq3_s_grid()[code], uint32_t(signs[part / 2]) >> part % 2 * 4, y);
  }
}

// A group of 32: four code bytes, and a word of four 3-bit high parts, a 3-bit scale and the shift's sign.
void decode_iq1_s(const uint8_t* block, float* y) {
  const float d = load_half(block);
  for (int group = 0; group < 8; ++group, y += 32) {
    const uint16_t word = load<uint16_t>(block + 34 + 2 * group);
    const float scale = d * float(2 * (word >> 12 & 7) + 1);
    for (int part = 0; part < 4; ++part) {
      const size_t code = block[2 + 4 * group + part] | size_t(word >> 3 * part & 7) << 8;
      put_shifted(scale, iq1_grid()[code], word & 0x8000, y + 8 * part);
    }
  }
}

// The f16 scale lies in the top four bits of four words, whose other bits are 3-bit scales for 16 columns.
void decode_iq1_m(const uint8_t* block, float* y) {
  const uint8_t *codes = block, *high = block + 32;
  uint16_t word[4], half = 0;
  for (int i = 0; i < 4; ++i) {
    word[i] = load<uint16_t>(block + 48 + 2 * i);
    half = uint16_t(half | (word[i] >> 12) << 4 * i);
  }
  const float d = half_to_float(half);
  for (int part = 0; part < 32; ++part, y += 8) {
    const int bits = high[part / 2] >> (part % 2 * 4) & 15;
    const int level = word[part / 8] >> (part / 2 % 4 * 3) & 7;
    const size_t code = codes[part] | size_t(bits & 7) << 8;
    put_shifted(d * float(2 * level + 1), iq1_grid()[code], bits & 8, y);
  }
}

}  // namespace tenon::gguf
