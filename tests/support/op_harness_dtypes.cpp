// The core's own dtypes as records, so that plugins can be tested without the core.
#include <cstring>

#include "kit/numeric.hpp"
#include "op_harness_kit.hpp"

namespace tenon::testing {
namespace {

template <typename T>
struct Plain {
  static float read(const T& value) { return float(value); }
  static T write(float value) { return T(value); }
};
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
template <>
struct Plain<Bf16> {
  static float read(Bf16 value) { return from_bf16(value.bits); }
  static Bf16 write(float value) { return {to_bf16(value)}; }
};
template <>
struct Plain<F16> {
  static float read(F16 value) { return from_f16(value.bits); }
  static F16 write(float value) { return {to_f16(value)}; }
};

template <typename T>
tenon_status decode(const tenon_weight* w, int64_t row0, int64_t n, float* out) noexcept {
  for (int64_t r = 0; r < n; ++r) {
    const auto* row = reinterpret_cast<const uint8_t*>(w->plane[0] + uint64_t((row0 + r) * w->row_bytes));
    for (int64_t c = 0; c < w->cols; ++c) {
      T value;
      std::memcpy(&value, row + c * int64_t(sizeof(T)), sizeof(T));
      out[r * w->cols + c] = Plain<T>::read(value);
    }
  }
  return TENON_OK;
}

template <typename T>
tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* w) noexcept {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const T value = Plain<T>::write(values[r * cols + c]);
      std::memcpy(reinterpret_cast<uint8_t*>(w->plane[0] + uint64_t(r * w->row_bytes)) + c * int64_t(sizeof(T)), &value,
                  sizeof(T));
    }
  return TENON_OK;
}

template <typename T>
const tenon_dtype* record(std::string_view name) {
  static const tenon_dtype table = {.struct_size = sizeof(tenon_dtype),
                                    .n_plane = 1,
                                    .name = {name.data(), name.size()},
                                    .block_cols = 1,
                                    .block_bytes = sizeof(T),
                                    .tile_rows = 0,
                                    .tile_cols = 0,
                                    .plane_bytes = {sizeof(T), 0, 0, 0},
                                    .decode = decode<T>,
                                    .encode = encode<T>,
                                    .check = nullptr};
  return &table;
}

}  // namespace

const std::vector<const tenon_dtype*>& core_dtypes() {
  static const std::vector<const tenon_dtype*> all = {
      record<float>("f32"),   record<F16>("f16"),     record<Bf16>("bf16"),
      record<double>("f64"),  record<int8_t>("i8"),   record<int16_t>("i16"),
      record<int32_t>("i32"), record<int64_t>("i64"), record<uint8_t>("u8")};
  return all;
}

}  // namespace tenon::testing
