// value = code × scale, both exact in f32, one rounding.
#include "fp8.hpp"

#include <algorithm>

#include "codes.hpp"

namespace tenon::safetensors {
namespace {

constexpr float kSmallestScale = 1e-12f;  // of a tile of zeros, as encoders of such checkpoints have it

constexpr unsigned planes_of(ScaleExtent extent) {
  return extent == ScaleExtent::kNone     ? 1u
         : extent == ScaleExtent::kTensor ? 1u | 1u << TENON_PLANE_MACRO
                                          : 1u | 1u << TENON_PLANE_SCALES;
}
constexpr int64_t tile_rows(ScaleExtent extent) { return extent == ScaleExtent::kBlock128 ? 128 : 1; }
int64_t tile_cols(ScaleExtent extent, int64_t cols) { return extent == ScaleExtent::kBlock128 ? 128 : cols; }
int64_t tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

template <ScaleExtent extent, typename Scale>
uint8_t* scale_at(const tenon_weight& weight, RowPlace place, int64_t tile_col) {
  if constexpr (extent == ScaleExtent::kTensor)
    return plane_at(weight, TENON_PLANE_MACRO, place.expert * Scale::kBytes);
  const int64_t rows = tiles(weight.rows, tile_rows(extent)), cols = tiles(weight.cols, tile_cols(extent, weight.cols));
  const int64_t index = (place.expert * rows + place.row / tile_rows(extent)) * cols + tile_col;
  return plane_at(weight, TENON_PLANE_SCALES, index * Scale::kBytes);
}

template <ScaleExtent extent, typename Scale>
tenon_status decode(const tenon_weight* weight, int64_t row0, int64_t n, float* out) noexcept {
  return sdk::guard([&] {
    check_weight("decode", *weight, row0, n, 1, planes_of(extent));
    const int64_t cols = weight->cols, step = tile_cols(extent, cols);
    for (int64_t row = row0; row < row0 + n; ++row, out += cols) {
      const RowPlace place = place_of(*weight, row);
      const uint8_t* code = codes_of(*weight, place, cols);
      for (int64_t c = 0; c < cols; c += step) {
        const int64_t end = std::min(cols, c + step);
        if constexpr (extent == ScaleExtent::kNone) {
          for (int64_t i = c; i < end; ++i) out[i] = kE4M3[code[i]];
        } else {
          const float scale = Scale::load(scale_at<extent, Scale>(*weight, place, c / step));
          for (int64_t i = c; i < end; ++i) out[i] = kE4M3[code[i]] * scale;
        }
      }
    }
  });
}

// Codes of the rows and columns under one scale. Values are divided by the scale as it is stored.
template <typename Scale>
void encode_tile(const float* values, int64_t cols, int64_t row0, int64_t row1, int64_t col0, int64_t col1,
                 const tenon_weight& out, uint8_t* scale_place) {
  float scale = 1;
  if (scale_place) {
    float largest = 0;
    for (int64_t r = row0; r < row1; ++r)
      for (int64_t c = col0; c < col1; ++c) largest = std::max(largest, std::fabs(values[r * cols + c]));
    Scale::store(scale_place, std::max(largest / kLargestE4M3, kSmallestScale));
    scale = Scale::load(scale_place);
  }
  for (int64_t r = row0; r < row1; ++r) {
    uint8_t* code = codes_of(out, {0, r}, cols);
    for (int64_t c = col0; c < col1; ++c) code[c] = e4m3_code(values[r * cols + c] / scale);
  }
}

template <ScaleExtent extent, typename Scale>
tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) noexcept {
  return sdk::guard([&] {
    check_weight("encode", *out, 0, rows, 1, planes_of(extent));
    check_values(*out, values, rows, cols);
    const bool whole = extent == ScaleExtent::kTensor || extent == ScaleExtent::kNone;
    const int64_t row_step = whole ? rows : tile_rows(extent), col_step = tile_cols(extent, cols);
    for (int64_t r = 0; r < rows; r += row_step)
      for (int64_t c = 0; c < cols; c += col_step) {
        uint8_t* scale = extent == ScaleExtent::kNone ? nullptr : scale_at<extent, Scale>(*out, {0, r}, c / col_step);
        encode_tile<Scale>(values, cols, r, std::min(rows, r + row_step), c, std::min(cols, c + col_step), *out, scale);
      }
  });
}

template <ScaleExtent extent, typename Scale>
tenon_dtype record() {
  tenon_dtype out = {};
  out.struct_size = sizeof out, out.n_plane = 1;
  out.block_cols = 1, out.block_bytes = 1, out.plane_bytes[0] = 1;
  if (extent == ScaleExtent::kTensor)
    out.n_plane = TENON_PLANE_MACRO + 1, out.plane_bytes[TENON_PLANE_MACRO] = Scale::kBytes;
  if (extent == ScaleExtent::kRow || extent == ScaleExtent::kBlock128) {
    out.n_plane = TENON_PLANE_SCALES + 1, out.plane_bytes[TENON_PLANE_SCALES] = Scale::kBytes;
    out.tile_rows = uint32_t(tile_rows(extent)), out.tile_cols = extent == ScaleExtent::kRow ? 0 : 128;
  }
  out.decode = decode<extent, Scale>, out.encode = encode<extent, Scale>,
  out.check = check_finite<&decode<extent, Scale>>;
  return out;
}

template <typename Scale>
tenon_dtype record_of(ScaleExtent extent) {
  switch (extent) {
    case ScaleExtent::kTensor:
      return record<ScaleExtent::kTensor, Scale>();
    case ScaleExtent::kRow:
      return record<ScaleExtent::kRow, Scale>();
    case ScaleExtent::kBlock128:
      return record<ScaleExtent::kBlock128, Scale>();
    default:
      return record<ScaleExtent::kNone, Scale>();
  }
}

}  // namespace

tenon_dtype fp8_record(std::string_view name, ScaleExtent extent, bool bf16_scale) {
  tenon_dtype out = bf16_scale ? record_of<Bf16Scale>(extent) : record_of<F32Scale>(extent);
  out.name = sdk::to_str(name);
  return out;
}

}  // namespace tenon::safetensors
