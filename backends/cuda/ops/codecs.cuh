// codecs.cuh: eight consecutive columns of a weight's row as f32, for every storage form that device code reads. The
// arithmetic is the formats' definition, operation by operation: group scale first, then the integer, then the minimum,
// each rounded, never fused; so decoded values equal those of the dtype's own decoder to the bit.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

constexpr int kEight = 8;

// Blocks lie at even addresses only.
__device__ inline uint32_t load16(const uint8_t* p) { return *reinterpret_cast<const uint16_t*>(p); }
__device__ inline uint32_t load32(const uint8_t* p) { return load16(p) | load16(p + 2) << 16; }
__device__ inline float load_half(const uint8_t* p) { return half_to_float(uint16_t(load16(p))); }
// Byte i of eight bytes that were loaded by load64().
struct Eight {
  uint32_t low, high;
  __device__ uint32_t operator[](int i) const { return (i < 4 ? low >> 8 * i : high >> 8 * (i - 4)) & 0xff; }
};
__device__ inline Eight load64(const uint8_t* p) { return {load32(p), load32(p + 4)}; }

// Each codec: value(row, k, n, w) writes columns k … k + 7 of the row to w, k a multiple of 8. Float rows may end
// before k + 8: then only n columns are read and the others are 0.
template <Codec codec>
struct Decoder;

template <>
struct Decoder<Codec::kF32> {
  static __device__ void read(const uint8_t* row, int64_t k, int n, float* w) {
    const float* p = reinterpret_cast<const float*>(row) + k;
    for (int i = 0; i < kEight; ++i) w[i] = i < n ? p[i] : 0.0f;
  }
};
template <>
struct Decoder<Codec::kF16> {
  static __device__ void read(const uint8_t* row, int64_t k, int n, float* w) {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(row) + k;
    for (int i = 0; i < kEight; ++i) w[i] = i < n ? half_to_float(p[i]) : 0.0f;
  }
};
template <>
struct Decoder<Codec::kBf16> {
  static __device__ void read(const uint8_t* row, int64_t k, int n, float* w) {
    const uint16_t* p = reinterpret_cast<const uint16_t*>(row) + k;
    for (int i = 0; i < kEight; ++i) w[i] = i < n ? bf16_to_float(p[i]) : 0.0f;
  }
};

template <>
struct Decoder<Codec::kQ8_0> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 34;
    const float d = load_half(block);
    const Eight codes = load64(block + 2 + k % 32);
    for (int i = 0; i < kEight; ++i) w[i] = d * float(int8_t(codes[i]));
  }
};

// Blocks of 32 with a nibble a column: byte j holds column j in its low and column j + 16 in its high four bits.
__device__ inline uint32_t nibble_shift(int64_t k) { return k % 32 < 16 ? 0 : 4; }

template <>
struct Decoder<Codec::kQ4_0> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 18;
    const float d = load_half(block);
    const Eight codes = load64(block + 2 + k % 16);
    const uint32_t shift = nibble_shift(k);
    for (int i = 0; i < kEight; ++i) w[i] = d * float(int(codes[i] >> shift & 15) - 8);
  }
};
template <>
struct Decoder<Codec::kQ4_1> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 20;
    const float d = load_half(block), m = load_half(block + 2);
    const Eight codes = load64(block + 4 + k % 16);
    const uint32_t shift = nibble_shift(k);
    for (int i = 0; i < kEight; ++i) w[i] = d * float(codes[i] >> shift & 15) + m;
  }
};
template <>
struct Decoder<Codec::kQ5_0> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 22;
    const float d = load_half(block);
    const uint32_t high = load32(block + 2) >> k % 32, shift = nibble_shift(k);
    const Eight codes = load64(block + 6 + k % 16);
    for (int i = 0; i < kEight; ++i) w[i] = d * float(int((codes[i] >> shift & 15) | (high >> i & 1) << 4) - 16);
  }
};
template <>
struct Decoder<Codec::kQ5_1> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 24;
    const float d = load_half(block), m = load_half(block + 2);
    const uint32_t high = load32(block + 4) >> k % 32, shift = nibble_shift(k);
    const Eight codes = load64(block + 8 + k % 16);
    for (int i = 0; i < kEight; ++i) w[i] = d * float((codes[i] >> shift & 15) | (high >> i & 1) << 4) + m;
  }
};

// The 16 levels of the non-linear types, four to a word, so that no lane waits for another's constant.
__device__ inline float level16(uint32_t code) {
  constexpr uint32_t kLevels[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
  const uint32_t low = code & 4 ? kLevels[1] : kLevels[0], high = code & 4 ? kLevels[3] : kLevels[2];
  return float(int8_t((code & 8 ? high : low) >> 8 * (code & 3)));
}

template <>
struct Decoder<Codec::kIq4Nl> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 18;
    const float d = load_half(block);
    const Eight codes = load64(block + 2 + k % 16);
    const uint32_t shift = nibble_shift(k);
    for (int i = 0; i < kEight; ++i) w[i] = d * level16(codes[i] >> shift & 15);
  }
};
template <>
struct Decoder<Codec::kIq4Xs> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 136;
    const int column = int(k % 256), group = column / 32;
    const uint32_t low = block[4 + group / 2] >> group % 2 * 4 & 15, high = load16(block + 2) >> 2 * group & 3;
    const float scale = load_half(block) * float(int(low | high << 4) - 32);
    const Eight codes = load64(block + 8 + 16 * group + column % 16);
    const uint32_t shift = nibble_shift(k);
    for (int i = 0; i < kEight; ++i) w[i] = scale * level16(codes[i] >> shift & 15);
  }
};

// Super-blocks of 256 columns.
template <>
struct Decoder<Codec::kQ2K> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 84;
    const int column = int(k % 256);
    const uint32_t packed = block[column / 16];
    const float scale = load_half(block + 80) * float(packed & 15), min = load_half(block + 82) * float(packed >> 4);
    const Eight codes = load64(block + 16 + column / 128 * 32 + column % 32);
    const int shift = column % 128 / 32 * 2;
    for (int i = 0; i < kEight; ++i) w[i] = scale * float(codes[i] >> shift & 3) - min;
  }
};
template <>
struct Decoder<Codec::kQ3K> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 110;
    const int column = int(k % 256), group = column / 16, part = column / 32;
    const uint8_t* scales = block + 96;
    const uint32_t low = scales[group % 8] >> (group < 8 ? 0 : 4) & 15,
                   top = scales[8 + group % 4] >> group / 4 * 2 & 3;
    const float scale = load_half(block + 108) * float(int(low | top << 4) - 32);
    const Eight codes = load64(block + 32 + column / 128 * 32 + column % 32), high = load64(block + column % 32);
    for (int i = 0; i < kEight; ++i) {
      const uint32_t code = (codes[i] >> part % 4 * 2 & 3) | (high[i] >> part & 1) << 2;
      w[i] = scale * float(int(code) - 4);
    }
  }
};

// Scale and minimum of a group of q4_k and q5_k: eight pairs of six bits in twelve bytes.
struct ScaleMin {
  float scale, min;
};
__device__ inline ScaleMin scale_min(const uint8_t* block, int group) {
  const uint8_t* packed = block + 4;
  uint32_t scale, min;
  if (group < 4) {
    scale = packed[group] & 63, min = packed[group + 4] & 63;
  } else {
    scale = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    min = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
  }
  return {load_half(block) * float(scale), load_half(block + 2) * float(min)};
}

template <>
struct Decoder<Codec::kQ4K> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 144;
    const int column = int(k % 256), group = column / 32;
    const ScaleMin s = scale_min(block, group);
    const Eight codes = load64(block + 16 + group / 2 * 32 + column % 32);
    for (int i = 0; i < kEight; ++i) w[i] = s.scale * float(codes[i] >> group % 2 * 4 & 15) - s.min;
  }
};
template <>
struct Decoder<Codec::kQ5K> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 176;
    const int column = int(k % 256), group = column / 32;
    const ScaleMin s = scale_min(block, group);
    const Eight codes = load64(block + 48 + group / 2 * 32 + column % 32), high = load64(block + 16 + column % 32);
    for (int i = 0; i < kEight; ++i) {
      const uint32_t code = (codes[i] >> group % 2 * 4 & 15) | (high[i] >> group & 1) << 4;
      w[i] = s.scale * float(code) - s.min;
    }
  }
};
template <>
struct Decoder<Codec::kQ6K> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 210;
    const int column = int(k % 256), half = column / 128, quarter = column % 128 / 32, lane = column % 32;
    const float scale = load_half(block + 208) * float(int8_t(block[192 + column / 16]));
    const Eight low = load64(block + 64 * half + 32 * (quarter & 1) + lane);
    const Eight high = load64(block + 128 + 32 * half + lane);
    for (int i = 0; i < kEight; ++i) {
      const uint32_t code = (low[i] >> (quarter >> 1) * 4 & 15) | (high[i] >> 2 * quarter & 3) << 4;
      w[i] = scale * float(int(code) - 32);
    }
  }
};

// Calls f.template operator()<codec>() with the codec as a constant, for the codecs of one list.
template <Codec... codecs>
struct CodecList {
  template <typename F>
  static bool with(Codec wanted, F&& f) {
    return ((wanted == codecs ? (f.template operator()<codecs>(), true) : false) || ...);
  }
};
using FloatCodecs = CodecList<Codec::kF32, Codec::kF16, Codec::kBf16>;
using BlockCodecs32 = CodecList<Codec::kQ8_0, Codec::kQ4_0, Codec::kQ4_1, Codec::kQ5_0, Codec::kQ5_1, Codec::kIq4Nl>;
using BlockCodecs256 = CodecList<Codec::kQ2K, Codec::kQ3K, Codec::kQ4K, Codec::kQ5K, Codec::kQ6K, Codec::kIq4Xs>;

}  // namespace tenon::cuda
