// codes.hpp: E4M3 and E2M1 numbers (OCP 8-bit and Microscaling formats), and where a weight's rows and scales lie.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tenon/sdk/base.hpp>

namespace tenon::safetensors {

// Sign, 4 bits of exponent with bias 7, 3 of fraction; no infinity, 0x7f and 0xff are NaN.
constexpr std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> out{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    float value = exponent == 0 ? float(fraction) : float(8 + fraction);
    for (int i = 0; i < (exponent == 0 ? 1 : exponent); ++i) value *= 2;
    value /= 1024;  // 2^-7 of the bias and 2^-3 of the fraction
    if ((code & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
    out[size_t(code)] = code & 0x80 ? -value : value;
  }
  return out;
}
inline constexpr std::array<float, 256> kE4M3 = make_e4m3_values();
inline constexpr float kLargestE4M3 = 448;

// Nearest code, ties to even; what is larger than 448 becomes 448.
inline uint8_t e4m3_code(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return uint8_t(sign | 0x7f);
  if (magnitude >= kLargestE4M3) return uint8_t(sign | 0x7e);
  // Steps: 2^-9 below 2^-6, then an eighth of the power of two below.
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  const float steps = std::nearbyint(std::ldexp(magnitude, 3 - exponent));
  // 8 steps and more carry into the exponent's bits.
  return uint8_t(sign | uint8_t(int(steps) + ((exponent + 6) << 3)));
}

inline constexpr float kE2M1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// Nearest code; of two equally near the smaller magnitude.
inline uint8_t e2m1_code(float value) {
  const float magnitude = std::fabs(value);
  uint8_t best = 0;
  for (uint8_t code = 1; code < 8; ++code)
    if (std::fabs(magnitude - kE2M1[code]) < std::fabs(magnitude - kE2M1[best])) best = code;
  return uint8_t(best | (value < 0 ? 8 : 0));
}

struct F32Scale {
  static constexpr uint32_t kBytes = 4;
  static float load(const uint8_t* at) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(uint8_t* at, float value) { std::memcpy(at, &value, sizeof value); }
};
struct Bf16Scale {
  static constexpr uint32_t kBytes = 2;
  static float load(const uint8_t* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return std::bit_cast<float>(uint32_t(bits) << 16);
  }
  static void store(uint8_t* at, float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    const auto bits = uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    std::memcpy(at, &bits, sizeof bits);
  }
};

inline uint8_t* plane_at(const tenon_weight& weight, int plane, int64_t offset) {
  return reinterpret_cast<uint8_t*>(weight.plane[plane] + uint64_t(offset));
}

// A row of a stack, by expert.
struct RowPlace {
  int64_t expert, row;
};
inline RowPlace place_of(const tenon_weight& weight, int64_t row) {
  if (weight.n_expert <= 1) return {0, row};
  return {row / weight.rows, row % weight.rows};
}

inline uint8_t* codes_of(const tenon_weight& weight, RowPlace place, int64_t packed_row_bytes) {
  const int64_t step = weight.row_bytes > 0 ? weight.row_bytes : packed_row_bytes;
  const int64_t stride = weight.expert_stride > 0 ? weight.expert_stride : step * weight.rows;
  return plane_at(weight, TENON_PLANE_CODES, place.expert * stride + place.row * step);
}

// Throws INVALID_ARGUMENT when the rows or a plane are not there. `planes`: bits of those that are needed.
inline void check_weight(const char* what, const tenon_weight& weight, int64_t row0, int64_t n, int64_t block_cols,
                         unsigned planes) {
  const int64_t rows = weight.n_expert > 1 ? weight.rows * int64_t(weight.n_expert) : weight.rows;
  bool there = weight.layout == 0;
  for (int plane = 0; plane < 4; ++plane) there = there && (!(planes >> plane & 1) || weight.plane[plane] != 0);
  if (!there)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: needs every plane of a weight in the file's layout", what));
  if (weight.cols <= 0 || weight.cols % block_cols != 0)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: %lld columns are no multiple of %lld", what,
                                                       (long long)weight.cols, (long long)block_cols));
  if (row0 < 0 || n < 0 || row0 > rows || n > rows - row0)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: rows %lld and %lld more leave the weight's %lld rows", what,
                                                       (long long)row0, (long long)n, (long long)rows));
}

inline void check_values(const tenon_weight& out, const float* values, int64_t rows, int64_t cols) {
  if (rows != out.rows || cols != out.cols || out.n_expert > 1)
    throw sdk::Error(TENON_INVALID_ARGUMENT, "encode: the planes are those of another shape");
  for (int64_t i = 0; i < rows * cols; ++i)
    if (!std::isfinite(values[i]))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("encode: row %lld, column %lld is not finite",
                                                         (long long)(i / cols), (long long)(i % cols)));
}

// The first value that is not finite of rows that `decode` gives.
template <auto decode>
tenon_status check_finite(const tenon_weight* weight, int64_t row0, int64_t n) noexcept {
  return sdk::guard([&]() -> tenon_status {
    if (weight->cols <= 0) throw sdk::Error(TENON_INVALID_ARGUMENT, "check: no columns");
    std::string memory(size_t(weight->cols) * sizeof(float), '\0');
    auto* values = reinterpret_cast<float*>(memory.data());
    for (int64_t row = row0; row < row0 + n; ++row) {
      if (const tenon_status status = decode(weight, row, 1, values); status != TENON_OK) return status;
      for (int64_t c = 0; c < weight->cols; ++c)
        if (!std::isfinite(values[c]))
          throw sdk::Error(TENON_CORRUPT,
                           sdk::text("row %lld, column %lld is not finite", (long long)row, (long long)c));
    }
    return TENON_OK;
  });
}

}  // namespace tenon::safetensors
