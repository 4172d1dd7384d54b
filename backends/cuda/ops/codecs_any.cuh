// codecs_any.cuh: the codecs that no kernel is built for on its own: codebooks, ternary codes, fp4 and fp8 with their
// planes of scales; and one reader of all codecs. In the formats' order of operations, as in codecs.cuh.
#pragma once

#include <tenon/sdk/codebooks.hpp>

#include "matrix.cuh"

namespace tenon::cuda {

// Vectors of a codebook, each number's digit in `bits` bits, the first one lowest.
template <int entries>
struct Codebook {
  uint16_t entry[entries];
};
template <int entries, int words>
constexpr Codebook<entries> codebook(const uint64_t (&map)[words], uint32_t base, int digits, int bits) {
  Codebook<entries> book = {};
  int n = 0;
  for (uint32_t vector = 0; vector < uint32_t(64 * words) && n < entries; ++vector) {
    if (!(map[vector / 64] >> vector % 64 & 1)) continue;
    uint32_t rest = vector, packed = 0;
    for (int i = 0; i < digits; ++i) packed |= rest % base << bits * i, rest /= base;
    book.entry[n++] = uint16_t(packed);
  }
  return book;
}
__device__ constexpr Codebook<2048> kIq1Book = codebook<2048>(sdk::codebook::kIq1, 3, 8, 2);
__device__ constexpr Codebook<256> kIq2XxsBook = codebook<256>(sdk::codebook::kIq2Xxs, 3, 8, 2);
__device__ constexpr Codebook<512> kIq2XsBook = codebook<512>(sdk::codebook::kIq2Xs, 3, 8, 2);
__device__ constexpr Codebook<1024> kIq2SBook = codebook<1024>(sdk::codebook::kIq2S, 3, 8, 2);
__device__ constexpr Codebook<256> kIq3XxsBook = codebook<256>(sdk::codebook::kIq3Xxs, 8, 4, 3);
__device__ constexpr Codebook<512> kIq3SBook = codebook<512>(sdk::codebook::kIq3S, 8, 4, 3);

// Seven sign bits; the eighth makes the number of ones even.
__device__ inline uint32_t even_signs(uint32_t seven) {
  uint32_t odd = seven ^ seven >> 4;
  odd ^= odd >> 2, odd ^= odd >> 1;
  return seven | (odd & 1) << 7;
}
__device__ inline float with_sign(float value, uint32_t is_negative) { return is_negative ? -value : value; }

// Levels 8, 25, 43.
__device__ inline void put_iq2(float scale, uint32_t packed, uint32_t signs, float* w) {
  for (int i = 0; i < kEight; ++i) {
    const float level = float(0x2b1908u >> (packed >> 2 * i & 3) * 8 & 0xff);
    w[i] = with_sign(scale * level, signs >> i & 1);
  }
}
// Two vectors of four; levels 4, 12, 20, 28, 36, 44, 52, 62, or 1, 3 … 15.
template <bool is_s>
__device__ inline void put_iq3(float scale, uint32_t first, uint32_t second, uint32_t signs, float* w) {
  for (int i = 0; i < kEight; ++i) {
    const uint32_t digit = (i < 4 ? first : second) >> 3 * (i % 4) & 7;
    const float level = float(is_s ? 2 * digit + 1 : digit == 7 ? 62 : 4 + 8 * digit);
    w[i] = with_sign(scale * level, signs >> i & 1);
  }
}
// −1, 0, 1, all moved by an eighth up or down.
__device__ inline void put_iq1(float scale, uint32_t packed, bool is_down, float* w) {
  const float shift = is_down ? -0.125f : 0.125f;
  for (int i = 0; i < kEight; ++i) w[i] = scale * (float(int(packed >> 2 * i & 3) - 1) + shift);
}

template <>
struct Decoder<Codec::kIq2Xxs> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 66;
    const int part = int(k % 256) / 8;
    const uint8_t* codes = block + 2 + 8 * (part / 4);
    const uint32_t word = load32(codes + 4);
    put_iq2(load_half(block) * (0.5f + float(word >> 28)) * 0.25f, kIq2XxsBook.entry[codes[part % 4]],
            even_signs(word >> 7 * (part % 4) & 127), w);
  }
};
template <>
struct Decoder<Codec::kIq2Xs> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 74;
    const int part = int(k % 256) / 8;
    const uint32_t word = load16(block + 2 + 2 * part), level = block[66 + part / 4] >> part / 2 % 2 * 4 & 15;
    put_iq2(load_half(block) * (0.5f + float(level)) * 0.25f, kIq2XsBook.entry[word & 511], even_signs(word >> 9), w);
  }
};
template <>
struct Decoder<Codec::kIq2S> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 82;
    const int part = int(k % 256) / 8;
    const uint32_t code = block[2 + part] | (block[66 + part / 4] >> part % 4 * 2 & 3u) << 8;
    const uint32_t level = block[74 + part / 4] >> part / 2 % 2 * 4 & 15;
    put_iq2(load_half(block) * (0.5f + float(level)) * 0.25f, kIq2SBook.entry[code], block[34 + part], w);
  }
};
template <>
struct Decoder<Codec::kIq3Xxs> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 98;
    const int part = int(k % 256) / 8;
    const uint32_t word = load32(block + 66 + 4 * (part / 4));
    const uint8_t* codes = block + 2 + 2 * part;
    put_iq3<false>(load_half(block) * (0.5f + float(word >> 28)) * 0.5f, kIq3XxsBook.entry[codes[0]],
                   kIq3XxsBook.entry[codes[1]], even_signs(word >> 7 * (part % 4) & 127), w);
  }
};
template <>
struct Decoder<Codec::kIq3S> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 110;
    const int part = int(k % 256) / 8;
    const uint8_t* codes = block + 2 + 2 * part;
    const uint32_t high = block[66 + part / 4] >> part % 4 * 2, level = block[106 + part / 8] >> part / 4 % 2 * 4 & 15;
    put_iq3<true>(load_half(block) * float(1 + 2 * level), kIq3SBook.entry[codes[0] | (high & 1) << 8],
                  kIq3SBook.entry[codes[1] | (high >> 1 & 1) << 8], block[74 + part], w);
  }
};
template <>
struct Decoder<Codec::kIq1S> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 50;
    const int part = int(k % 256) / 8;
    const uint32_t word = load16(block + 34 + 2 * (part / 4));
    const uint32_t code = block[2 + part] | (word >> 3 * (part % 4) & 7) << 8;
    put_iq1(load_half(block) * float(2 * (word >> 12 & 7) + 1), kIq1Book.entry[code], word & 0x8000, w);
  }
};
template <>
struct Decoder<Codec::kIq1M> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 56;
    const int part = int(k % 256) / 8;
    uint32_t half = 0;  // in the top four bits of four words
    for (int i = 0; i < 4; ++i) half |= load16(block + 48 + 2 * i) >> 12 << 4 * i;
    const uint32_t bits = block[32 + part / 2] >> part % 2 * 4 & 15;
    const uint32_t level = load16(block + 48 + 2 * (part / 8)) >> part / 2 % 4 * 3 & 7;
    put_iq1(half_to_float(uint16_t(half)) * float(2 * level + 1), kIq1Book.entry[block[part] | (bits & 7) << 8],
            bits & 8, w);
  }
};

// Five digits in base 3 a byte, as a fraction of 256; digits of one place lie side by side, for 32, 16 and 4 bytes.
template <>
struct Decoder<Codec::kTq1_0> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 54;
    const float d = load_half(block + 52);
    for (int i = 0; i < kEight; ++i) {
      const int c = int(k % 256) + i;
      const int place = c < 160 ? c / 32 : c < 240 ? (c - 160) / 16 : (c - 240) / 4;
      const int byte = c < 160 ? c % 32 : c < 240 ? 32 + c % 16 : 48 + c % 4;
      uint32_t power = 1;
      for (int j = 0; j < place; ++j) power *= 3;
      w[i] = d * float(int((block[byte] * power & 0xff) * 3 >> 8) - 1);
    }
  }
};
template <>
struct Decoder<Codec::kTq2_0> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 256 * 66;
    const int column = int(k % 256);
    const float d = load_half(block + 64);
    const Eight codes = load64(block + column / 128 * 32 + column % 32);
    for (int i = 0; i < kEight; ++i) w[i] = d * float(int(codes[i] >> column % 128 / 32 * 2 & 3) - 1);
  }
};

// E4M3 shares f16's bits but for the exponent's bias, subnormal numbers included.
__device__ inline float e4m3_magnitude(uint32_t code) { return half_to_float(uint16_t((code & 0x7f) << 7)) * 256.0f; }
__device__ inline float e4m3_to_float(uint32_t code) {
  if ((code & 0x7f) == 0x7f) return quiet_nan();
  return with_sign(e4m3_magnitude(code), code & 0x80);
}
// Twice the magnitude of an E2M1 code: 0, 1, 2, 3, 4, 6, 8, 12.
__device__ inline int e2m1_doubled(uint32_t code) {
  return int((code & 4 ? 0x0c080604u : 0x03020100u) >> 8 * (code & 3) & 0xff);
}
__device__ inline float e2m1_doubled_signed(uint32_t code) {
  return float(code & 8 ? -e2m1_doubled(code) : e2m1_doubled(code));  // a whole number: zero has no sign
}

template <>
struct Decoder<Codec::kMxfp4> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 32 * 17;  // at any address
    // Half of 2^(e − 127); the two lowest exponents give subnormal numbers.
    const uint32_t e = block[0];
    const float d = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const uint32_t shift = nibble_shift(k);
    for (int i = 0; i < kEight; ++i) w[i] = d * e2m1_doubled_signed(block[1 + k % 16 + i] >> shift & 15);
  }
};
// Four groups of 16 columns with a scale each, whose sign is ignored; inside a group byte j holds columns j and j + 8.
template <>
struct Decoder<Codec::kNvfp4> {
  static __device__ void read(const uint8_t* row, int64_t k, int, float* w) {
    const uint8_t* block = row + k / 64 * 36;
    const int group = int(k % 64) / 16;
    const float d = block[group] == 0x7f ? 0.0f : e4m3_magnitude(block[group]) * 0.5f;
    const Eight codes = load64(block + 4 + 8 * group);
    const uint32_t shift = k % 16 < 8 ? 0 : 4;
    for (int i = 0; i < kEight; ++i) w[i] = d * e2m1_doubled_signed(codes[i] >> shift & 15);
  }
};

// Scale number `index` of a plane.
__device__ inline float load_scale(const uint8_t* plane, int64_t index, bool is_bf16) {
  if (is_bf16) return bf16_to_float(reinterpret_cast<const uint16_t*>(plane)[index]);
  return reinterpret_cast<const float*>(plane)[index];
}
__device__ inline void read_fp8(const Matrix& m, int64_t row, int64_t k, int n, float* w) {
  const Codec c = m.codec;
  const bool is_bf16 = c == Codec::kFp8TensorBf16 || c == Codec::kFp8RowBf16 || c == Codec::kFp8B128Bf16;
  float scale = 1;
  if (c == Codec::kFp8Tensor || c == Codec::kFp8TensorBf16) scale = load_scale(m.macro, 0, is_bf16);
  if (c == Codec::kFp8Row || c == Codec::kFp8RowBf16) scale = load_scale(m.scales, row, is_bf16);
  if (c == Codec::kFp8B128 || c == Codec::kFp8B128Bf16)
    scale = load_scale(m.scales, row / 128 * ((m.cols + 127) / 128) + k / 128, is_bf16);
  const uint8_t* codes = m.data + row * m.row_bytes + k;
  for (int i = 0; i < kEight; ++i) w[i] = i < n ? e4m3_to_float(codes[i]) * scale : 0.0f;
}
// value = code × (scale × factor); one spelling stores the factor's reciprocal.
__device__ inline void read_nvfp4_planes(const Matrix& m, int64_t row, int64_t k, float* w) {
  const float stored = *reinterpret_cast<const float*>(m.macro);
  const float factor = m.codec == Codec::kNvfp4Ct ? 1.0f / stored : stored;
  const float step = e4m3_to_float(m.scales[row * (m.cols / 16) + k / 16]) * factor;
  const uint8_t* codes = m.data + row * m.row_bytes + k / 2;
  for (int i = 0; i < kEight; ++i) {
    const uint32_t code = codes[i / 2] >> i % 2 * 4 & 15;
    w[i] = with_sign(float(e2m1_doubled(code)) * 0.5f, code & 8) * step;
  }
}

template <Codec codec>
__device__ inline void read_one(const Matrix& m, int64_t row, int64_t k, int n, float* w) {
  if constexpr (has_packed_form(codec)) {
    if (m.is_packed) return read_packed<codec>({m.data, m.packed}, int32_t(row), int32_t(k), w);
  }
  Decoder<codec>::read(m.data + row * m.row_bytes, k, n, w);
}

__device__ inline void read_any(const Matrix& m, int64_t row, int64_t k, int n, float* w) {
  switch (m.codec) {
#define TENON_CASE(codec) \
  case codec:             \
    return read_one<codec>(m, row, k, n, w);
    TENON_CASE(Codec::kF32)
    TENON_CASE(Codec::kF16)
    TENON_CASE(Codec::kBf16)
    TENON_CASE(Codec::kQ8_0)
    TENON_CASE(Codec::kQ4_0)
    TENON_CASE(Codec::kQ4_1)
    TENON_CASE(Codec::kQ5_0)
    TENON_CASE(Codec::kQ5_1)
    TENON_CASE(Codec::kQ2K)
    TENON_CASE(Codec::kQ3K)
    TENON_CASE(Codec::kQ4K)
    TENON_CASE(Codec::kQ5K)
    TENON_CASE(Codec::kQ6K)
    TENON_CASE(Codec::kIq4Nl)
    TENON_CASE(Codec::kIq4Xs)
    TENON_CASE(Codec::kIq1S)
    TENON_CASE(Codec::kIq1M)
    TENON_CASE(Codec::kIq2Xxs)
    TENON_CASE(Codec::kIq2Xs)
    TENON_CASE(Codec::kIq2S)
    TENON_CASE(Codec::kIq3Xxs)
    TENON_CASE(Codec::kIq3S)
    TENON_CASE(Codec::kTq1_0)
    TENON_CASE(Codec::kTq2_0)
    TENON_CASE(Codec::kMxfp4)
    TENON_CASE(Codec::kNvfp4)
#undef TENON_CASE
    case Codec::kNvfp4Modelopt:
    case Codec::kNvfp4Ct:
      return read_nvfp4_planes(m, row, k, w);
    case Codec::kNone:
      for (int i = 0; i < kEight; ++i) w[i] = quiet_nan();
      return;
    default:
      return read_fp8(m, row, k, n, w);
  }
}

// The one form for what has no kernel of its own.
struct AnyCodec {
  template <typename F>
  static bool with(Codec wanted, F&& f) {
    if (wanted == Codec::kNone) return false;
    f.template operator()<Codec::kNone>();
    return true;
  }
};

}  // namespace tenon::cuda
