#include "plugin/core_dtypes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "plugin/message.hpp"
#include "plugin/registry.hpp"

namespace tenon::test {
namespace {

using plugin::core_dtype;

tenon_weight weight_of(const void* data, int64_t rows, int64_t cols, int64_t row_bytes) {
  tenon_weight weight{};
  weight.struct_size = sizeof weight;
  weight.rows = rows, weight.cols = cols, weight.row_bytes = row_bytes;
  weight.plane[0] = reinterpret_cast<tenon_addr>(data);
  return weight;
}

template <typename T>
std::vector<float> decoded(uint32_t dtype, const std::vector<T>& values) {
  const tenon_weight weight = weight_of(values.data(), 1, int64_t(values.size()), int64_t(values.size() * sizeof(T)));
  std::vector<float> out(values.size());
  EXPECT_EQ(core_dtype(dtype)->decode(&weight, 0, 1, out.data()), TENON_OK);
  return out;
}

template <typename T>
std::vector<T> encoded(uint32_t dtype, const std::vector<float>& values) {
  std::vector<T> out(values.size());
  const tenon_weight weight = weight_of(out.data(), 1, int64_t(out.size()), int64_t(out.size() * sizeof(T)));
  EXPECT_EQ(core_dtype(dtype)->encode(values.data(), 1, int64_t(values.size()), &weight), TENON_OK);
  return out;
}

TEST(CoreDtypes, IdsAndNames) {
  const std::pair<uint32_t, const char*> known[] = {
      {TENON_DTYPE_F32, "f32"}, {TENON_DTYPE_F16, "f16"}, {TENON_DTYPE_BF16, "bf16"},
      {TENON_DTYPE_F64, "f64"}, {TENON_DTYPE_I8, "i8"},   {TENON_DTYPE_I16, "i16"},
      {TENON_DTYPE_I32, "i32"}, {TENON_DTYPE_I64, "i64"}, {TENON_DTYPE_U8, "u8"}};
  const plugin::Registry registry;
  for (const auto& [id, name] : known) {
    EXPECT_EQ(registry.dtype_id(name), id);
    ASSERT_NE(registry.dtype(id), nullptr);
    EXPECT_EQ(std::string_view(registry.dtype(id)->name.data, registry.dtype(id)->name.size), name);
  }
  EXPECT_EQ(registry.dtype(TENON_DTYPE_NONE), nullptr);
  EXPECT_EQ(registry.dtype(TENON_DTYPE_U8 + 1), nullptr);
  EXPECT_EQ(registry.dtype(TENON_DTYPE_FIRST_REGISTERED), nullptr);
  EXPECT_EQ(registry.dtype_id("q9"), uint32_t(TENON_DTYPE_NONE));
}

TEST(CoreDtypes, RowsAreTakenByTheirStep) {
  const std::vector<uint16_t> data = {0x3f80, 0x4000, 9, 9, 0x4040, 0x4080, 9, 9, 0x40a0, 0x40c0, 9, 9};
  const tenon_weight weight = weight_of(data.data(), 3, 2, 8);
  float out[4] = {};
  EXPECT_EQ(core_dtype(TENON_DTYPE_BF16)->decode(&weight, 1, 2, out), TENON_OK);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{3, 4, 5, 6}));
}

TEST(CoreDtypes, RowsOutsideOfTheWeightAreRefused) {
  const std::vector<float> data(8);
  float out[8];
  const tenon_weight good = weight_of(data.data(), 2, 4, 16);
  const auto decode = core_dtype(TENON_DTYPE_F32)->decode;
  EXPECT_EQ(decode(&good, 1, 2, out), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(decode(&good, -1, 1, out), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(decode(&good, 0, INT64_MAX, out), TENON_INVALID_ARGUMENT);
  const tenon_weight narrow = weight_of(data.data(), 2, 4, 15);
  EXPECT_EQ(decode(&narrow, 0, 1, out), TENON_INVALID_ARGUMENT);
  EXPECT_NE(plugin::take_message(), "");
}

TEST(CoreDtypes, AnUnalignedPlaneIsRead) {
  std::vector<char> data(9);
  const double value = -2.5;
  std::memcpy(data.data() + 1, &value, sizeof value);
  const tenon_weight weight = weight_of(data.data() + 1, 1, 1, 8);
  float out = 0;
  EXPECT_EQ(core_dtype(TENON_DTYPE_F64)->decode(&weight, 0, 1, &out), TENON_OK);
  EXPECT_EQ(out, -2.5f);
}

TEST(CoreDtypes, IntegersBecomeTheirValue) {
  EXPECT_EQ(decoded<int8_t>(TENON_DTYPE_I8, {-128, 127}), (std::vector<float>{-128, 127}));
  EXPECT_EQ(decoded<uint8_t>(TENON_DTYPE_U8, {128, 255}), (std::vector<float>{128, 255}));
  EXPECT_EQ(decoded<int16_t>(TENON_DTYPE_I16, {-32768, 5}), (std::vector<float>{-32768, 5}));
  EXPECT_EQ(decoded<int32_t>(TENON_DTYPE_I32, {-7, 1 << 30}), (std::vector<float>{-7, 0x1p30f}));
  EXPECT_EQ(decoded<int64_t>(TENON_DTYPE_I64, {int64_t(1) << 40}), std::vector<float>{0x1p40f});
}

// The compiler's own 16-bit type is the witness for every bit pattern.
TEST(CoreDtypes, F16IsExactForEveryPattern) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = uint16_t(i);
  const std::vector<float> values = decoded(TENON_DTYPE_F16, all);
  const std::vector<uint16_t> back = encoded<uint16_t>(TENON_DTYPE_F16, values);
  for (size_t i = 0; i < all.size(); ++i) {
    const float expected = float(std::bit_cast<_Float16>(all[i]));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i]));
      EXPECT_EQ(back[i] & 0x7c00, 0x7c00);
      EXPECT_NE(back[i] & 0x3ff, 0);
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected)) << i;
      EXPECT_EQ(back[i], all[i]);
    }
  }
}

TEST(CoreDtypes, EncodingRoundsToNearestEven) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0xff800000u - 0x10000u; bits += 0x2fff) values.push_back(std::bit_cast<float>(bits));
  for (const float edge : {65519.0f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-14f, 0x1.ffcp-15f, 1.00048828125f})
    for (const float sign : {1.0f, -1.0f}) values.push_back(edge * sign);
  const std::vector<uint16_t> half = encoded<uint16_t>(TENON_DTYPE_F16, values);
  const std::vector<uint16_t> brain = encoded<uint16_t>(TENON_DTYPE_BF16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    EXPECT_EQ(half[i], std::bit_cast<uint16_t>(static_cast<_Float16>(values[i]))) << values[i];
    // Against the neighbours in double: no other bf16 is nearer.
    const auto as_double = [](uint16_t b) { return double(std::bit_cast<float>(uint32_t(b) << 16)); };
    if (!std::isfinite(as_double(brain[i]))) continue;
    const double error = std::abs(as_double(brain[i]) - double(values[i]));
    for (const int step : {-1, 1}) {
      const uint16_t other = uint16_t(brain[i] + step);
      if ((other ^ brain[i]) & 0x8000 || !std::isfinite(as_double(other))) continue;
      const double other_error = std::abs(as_double(other) - double(values[i]));
      EXPECT_TRUE(error < other_error || (error == other_error && brain[i] % 2 == 0)) << values[i];
    }
  }
  EXPECT_EQ(encoded<uint16_t>(TENON_DTYPE_BF16, {std::numeric_limits<float>::max()})[0], 0x7f80);
  EXPECT_TRUE(std::isnan(decoded<uint16_t>(
      TENON_DTYPE_BF16, encoded<uint16_t>(TENON_DTYPE_BF16, {std::bit_cast<float>(0x7f800001u)}))[0]));
}

TEST(CoreDtypes, CheckNamesTheFirstRowThatIsNotFinite) {
  std::vector<float> data = {1, 2, 3, 4, 5, INFINITY, NAN, 8};
  const tenon_weight weight = weight_of(data.data(), 4, 2, 8);
  const auto check = core_dtype(TENON_DTYPE_F32)->check;
  EXPECT_EQ(check(&weight, 0, 2), TENON_OK);
  EXPECT_EQ(check(&weight, 1, 3), TENON_CORRUPT);
  EXPECT_EQ(plugin::take_message(), "row 2, column 1: not a finite number");
}

}  // namespace
}  // namespace tenon::test
