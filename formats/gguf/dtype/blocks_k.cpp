// blocks_k.cpp: super-blocks of 256 columns with a scale for each group of 16 or 32 columns (the K types), and iq4_xs.
#include "blocks.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

// Eight pairs of a 6-bit scale and a 6-bit minimum in twelve bytes: bytes 0…3 and 4…7 hold the low six bits of the
// first four pairs, bytes 8…11 four bits each of the last four; their upper two bits lie in the top of bytes 0…7.
struct ScaleMin {
  int scale, min;
};
ScaleMin scale_min(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4, packed[group + 4] >> 4 | (packed[group] >> 6) << 4};
}

}  // namespace

void decode_q2_k(const uint8_t* block, float* y) {
  const uint8_t* codes = block + 16;
  const float d = load_half(block + 80), dmin = load_half(block + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t group = block[i / 16];
    const float scale = d * float(group & 15), min = dmin * float(group >> 4);
    const int code = codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    y[i] = scale * float(code) - min;
  }
}

void decode_q3_k(const uint8_t* block, float* y) {
  const uint8_t *high = block, *codes = block + 32, *scales = block + 96;
  const float d = load_half(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16, part = i / 32;
    const int low = scales[group % 8] >> (group < 8 ? 0 : 4) & 15;
    const int top = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    const float scale = d * float((low | top << 4) - 32);
    const int code = codes[i / 128 * 32 + i % 32] >> (part % 4 * 2) & 3;
    y[i] = scale * float((code | (high[i % 32] >> part & 1) << 2) - 4);
  }
}

void decode_q4_k(const uint8_t* block, float* y) {
  const float d = load_half(block), dmin = load_half(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = scale_min(block + 4, group);
    const float scale = d * float(packed.scale), min = dmin * float(packed.min);
    const uint8_t* codes = block + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) y[32 * group + i] = scale * float(codes[i] >> (group % 2 * 4) & 15) - min;
  }
}

void decode_q5_k(const uint8_t* block, float* y) {
  const float d = load_half(block), dmin = load_half(block + 2);
  const uint8_t* high = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = scale_min(block + 4, group);
    const float scale = d * float(packed.scale), min = dmin * float(packed.min);
    const uint8_t* codes = block + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = (codes[i] >> (group % 2 * 4) & 15) | (high[i] >> group & 1) << 4;
      y[32 * group + i] = scale * float(code) - min;
    }
  }
}

void decode_q6_k(const uint8_t* block, float* y) {
  const uint8_t *low = block, *high = block + 128, *scales = block + 192;
  const float d = load_half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, lane = i % 32;
    const int bits = low[64 * half + 32 * (quarter & 1) + lane] >> (quarter >> 1) * 4 & 15;
    const int code = (bits | (high[32 * half + lane] >> 2 * quarter & 3) << 4) - 32;
    y[i] = d * float(int8_t(scales[i / 16])) * float(code);
  }
}

void decode_iq4_xs(const uint8_t* block, float* y) {
  const float d = load_half(block);
  const uint16_t high = load<uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> (group % 2 * 4) & 15;
    const float scale = d * float((low | (high >> 2 * group & 3) << 4) - 32);
    const uint8_t* codes = block + 8 + 16 * group;
    for (int i = 0; i < 32; ++i) {
      y[32 * group + i] = scale * float(kNonLinear4[codes[i % 16] >> (i < 16 ? 0 : 4) & 15]);
    }
  }
}

}  // namespace tenon::gguf
