// q6.cpp: decoder, encoder and check of example_q6.
#include "q6.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tenon/sdk/kernel.hpp>

namespace example {
namespace {

namespace sdk = tenon::sdk;

float scale_of(const uint8_t* block) {
  uint16_t half = 0;
  std::memcpy(&half, block, sizeof half);
  const uint32_t bits = uint32_t{half} << 16;  // a bfloat16 is the upper half of a float
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

void encode_block(const float* values, uint8_t* block) {
  float most = 0;
  for (int i = 0; i < kBlockCols; ++i) most = std::max(most, std::fabs(values[i]));
  const float wanted = most / 31.0f;
  uint32_t bits = 0;
  std::memcpy(&bits, &wanted, sizeof bits);
  const auto half = static_cast<uint16_t>((bits + 0x8000u) >> 16);  // to the nearest; values are finite
  std::memcpy(block, &half, sizeof half);
  const float scale = scale_of(block), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < kBlockCols; i += 4) {
    uint32_t codes = 0;
    for (int j = 0; j < 4; ++j) {
      const float level = std::clamp(std::rint(values[i + j] * inverse), -32.0f, 31.0f);
      codes |= static_cast<uint32_t>(static_cast<int>(level) + 32) << (6 * j);
    }
    std::memcpy(block + 2 + i / 4 * 3, &codes, 3);
  }
}

const uint8_t* row_of(const tenon_weight* w, int64_t row) {
  return sdk::at<const uint8_t>(w->plane[0], row * w->row_bytes);
}

tenon_status decode(const tenon_weight* w, int64_t row0, int64_t n, float* out) noexcept {
  for (int64_t r = 0; r < n; ++r) decode_row(row_of(w, row0 + r), w->cols, out + r * w->cols);
  return TENON_OK;
}

tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) noexcept {
  if (!std::all_of(values, values + rows * cols, [](float v) { return std::isfinite(v); }))
    return sdk::fail(TENON_INVALID_ARGUMENT, "example_q6: a value is not finite");
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += kBlockCols)
      encode_block(values + r * cols + c,
                   sdk::at<uint8_t>(out->plane[0], r * out->row_bytes + c / kBlockCols * kBlockBytes));
  return TENON_OK;
}

tenon_status check(const tenon_weight* w, int64_t row0, int64_t n) noexcept {
  for (int64_t row = row0; row < row0 + n; ++row)
    for (int64_t b = 0; b < w->cols / kBlockCols; ++b) {
      float values[kBlockCols];  // not the scale alone: a large one times a code overflows
      decode_row(row_of(w, row) + b * kBlockBytes, kBlockCols, values);
      if (!std::all_of(values, values + kBlockCols, [](float v) { return std::isfinite(v); }))
        return sdk::fail(TENON_CORRUPT, sdk::text("example_q6: row %lld, block %lld has a value that is not finite",
                                                  static_cast<long long>(row), static_cast<long long>(b)));
    }
  return TENON_OK;
}

}  // namespace

void decode_row(const uint8_t* blocks, int64_t cols, float* out) noexcept {
  for (int64_t c = 0; c < cols; c += kBlockCols, blocks += kBlockBytes) {
    const float scale = scale_of(blocks);
    for (int i = 0; i < kBlockCols; i += 4) {
      const uint8_t* three = blocks + 2 + i / 4 * 3;
      const uint32_t codes = three[0] | uint32_t{three[1]} << 8 | uint32_t{three[2]} << 16;
      for (int j = 0; j < 4; ++j)
        out[c + i + j] = scale * static_cast<float>(static_cast<int>(codes >> (6 * j) & 63) - 32);
    }
  }
}

const tenon_dtype* q6_dtype() {
  static const tenon_dtype record = {.struct_size = sizeof(tenon_dtype),
                                     .n_plane = 1,
                                     .name = sdk::to_str("example_q6"),
                                     .block_cols = kBlockCols,
                                     .block_bytes = kBlockBytes,
                                     .tile_rows = 0,
                                     .tile_cols = 0,
                                     .plane_bytes = {kBlockBytes, 0, 0, 0},
                                     .decode = decode,
                                     .encode = encode,
                                     .check = check};
  return &record;
}

}  // namespace example
