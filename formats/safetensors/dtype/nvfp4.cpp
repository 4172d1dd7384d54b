// value = code × (scale × factor), each product rounded to f32; a divisor is turned into a factor first, rounded as
// well.
#include "nvfp4.hpp"

#include <algorithm>

#include "codes.hpp"

namespace tenon::safetensors {
namespace {

constexpr int64_t kGroup = 16;
constexpr float kLargestE2M1 = 6, kSmallestScale = 0x1p-9f, kSmallestFactor = 1e-12f;
constexpr unsigned kPlanes = 1u | 1u << TENON_PLANE_SCALES | 1u << TENON_PLANE_MACRO;

uint8_t* scales_of(const tenon_weight& weight, RowPlace place) {
  return plane_at(weight, TENON_PLANE_SCALES, (place.expert * weight.rows + place.row) * (weight.cols / kGroup));
}

template <bool divides>
float factor_of(const tenon_weight& weight, int64_t expert) {
  const float stored = F32Scale::load(plane_at(weight, TENON_PLANE_MACRO, expert * F32Scale::kBytes));
  return divides ? 1.0f / stored : stored;
}

template <bool divides>
tenon_status decode(const tenon_weight* weight, int64_t row0, int64_t n, float* out) noexcept {
  return sdk::guard([&] {
    check_weight("decode", *weight, row0, n, kGroup, kPlanes);
    for (int64_t row = row0; row < row0 + n; ++row) {
      const RowPlace place = place_of(*weight, row);
      const uint8_t *code = codes_of(*weight, place, weight->cols / 2), *scale = scales_of(*weight, place);
      const float factor = factor_of<divides>(*weight, place.expert);
      for (int64_t group = 0; group < weight->cols / kGroup; ++group) {
        const float step = kE4M3[scale[group]] * factor;
        for (int64_t i = 0; i < kGroup / 2; ++i, ++code, out += 2)
          out[0] = kE2M1[*code & 15] * step, out[1] = kE2M1[*code >> 4] * step;
      }
    }
  });
}

template <bool divides>
tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) noexcept {
  return sdk::guard([&] {
    check_weight("encode", *out, 0, rows, kGroup, kPlanes);
    check_values(*out, values, rows, cols);
    float largest = 0;
    for (int64_t i = 0; i < rows * cols; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float wanted = std::max(largest / (kLargestE2M1 * kLargestE4M3), kSmallestFactor);
    F32Scale::store(plane_at(*out, TENON_PLANE_MACRO, 0), divides ? 1.0f / wanted : wanted);
    const float factor = factor_of<divides>(*out, 0);
    for (int64_t row = 0; row < rows; ++row) {
      uint8_t *code = codes_of(*out, {0, row}, cols / 2), *scale = scales_of(*out, {0, row});
      for (int64_t group = 0; group < cols / kGroup; ++group, values += kGroup) {
        float top = 0;
        for (int64_t i = 0; i < kGroup; ++i) top = std::max(top, std::fabs(values[i]));
        scale[group] = e4m3_code(std::clamp(top / kLargestE2M1 / factor, kSmallestScale, kLargestE4M3));
        const float step = kE4M3[scale[group]] * factor;
        for (int64_t i = 0; i < kGroup; i += 2)
          *code++ = uint8_t(e2m1_code(values[i] / step) | e2m1_code(values[i + 1] / step) << 4);
      }
    }
  });
}

template <bool divides>
tenon_dtype record() {
  tenon_dtype out = {};
  out.struct_size = sizeof out, out.n_plane = TENON_PLANE_MACRO + 1;
  out.block_cols = kGroup, out.block_bytes = kGroup / 2;
  out.tile_rows = 1, out.tile_cols = kGroup;
  out.plane_bytes[TENON_PLANE_CODES] = kGroup / 2, out.plane_bytes[TENON_PLANE_SCALES] = 1,
  out.plane_bytes[TENON_PLANE_MACRO] = 4;
  out.decode = decode<divides>, out.encode = encode<divides>, out.check = check_finite<&decode<divides>>;
  return out;
}

}  // namespace

tenon_dtype nvfp4_record(std::string_view name, bool divides) {
  tenon_dtype out = divides ? record<true>() : record<false>();
  out.name = sdk::to_str(name);
  return out;
}

}  // namespace tenon::safetensors
