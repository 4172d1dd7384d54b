// Conversions of metadata: any integer type serves as an integer, and what does not fit is refused with its key.
#include "source/metadata.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tenon/error.hpp>

namespace tenon {
namespace {

class MapMetadata final : public Metadata {
 public:
  void put(const std::string& key, tenon_value value) { values_[key] = value; }
  const tenon_value* find(std::string_view key) const override {
    const auto found = values_.find(std::string(key));
    return found == values_.end() ? nullptr : &found->second;
  }
  size_t size() const override { return values_.size(); }
  std::string_view key_at(size_t i) const override { return std::next(values_.begin(), std::ptrdiff_t(i))->first; }
  const tenon_value& value_at(size_t i) const override { return std::next(values_.begin(), std::ptrdiff_t(i))->second; }

 private:
  std::map<std::string, tenon_value> values_;
};

tenon_value integer(uint32_t type, int64_t number) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = type, value.integer = number;
  return value;
}
tenon_value real(uint32_t type, double number) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = type, value.real = number;
  return value;
}
tenon_value text(std::string_view string) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = TENON_VALUE_STRING, value.string = {string.data(), string.size()};
  return value;
}
tenon_value array(uint32_t element, const void* data, uint64_t count) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = TENON_VALUE_ARRAY, value.element = element, value.data = data;
  value.count = count;
  return value;
}

void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Metadata, AbsentKeysGiveNothing) {
  const MapMetadata metadata;
  EXPECT_FALSE(metadata.integer("k"));
  EXPECT_FALSE(metadata.real("k"));
  EXPECT_FALSE(metadata.boolean("k"));
  EXPECT_FALSE(metadata.string("k"));
  EXPECT_FALSE(metadata.strings("k"));
  EXPECT_FALSE(metadata.integers("k"));
  EXPECT_FALSE(metadata.reals("k"));
}

TEST(Metadata, AnyIntegerTypeIsAnInteger) {
  MapMetadata metadata;
  for (uint32_t type = TENON_VALUE_U8; type <= TENON_VALUE_I64; ++type) {
    metadata.put("k", integer(type, 7));
    EXPECT_EQ(metadata.integer("k"), 7);
    EXPECT_EQ(metadata.real("k"), 7.0);
  }
  metadata.put("k", integer(TENON_VALUE_I64, -7));
  EXPECT_EQ(metadata.integer("k"), -7);
  metadata.put("k", integer(TENON_VALUE_U64, -1));  // 2^64 − 1
  expect_refused([&] { metadata.integer("k"); }, "metadata key 'k': 18446744073709551615 is too large");
  metadata.put("k", real(TENON_VALUE_F32, 7));
  expect_refused([&] { metadata.integer("k"); }, "metadata key 'k': expected an integer, found f32");
  metadata.put("k", integer(TENON_VALUE_BOOL, 1));
  expect_refused([&] { metadata.integer("k"); }, "found bool");
}

TEST(Metadata, NumbersAndTruthValuesConvert) {
  MapMetadata metadata;
  metadata.put("k", real(TENON_VALUE_F64, 0.25));
  EXPECT_EQ(metadata.real("k"), 0.25);
  metadata.put("k", integer(TENON_VALUE_BOOL, 1));
  EXPECT_EQ(metadata.boolean("k"), true);
  metadata.put("k", integer(TENON_VALUE_U32, 0));
  EXPECT_EQ(metadata.boolean("k"), false);
  metadata.put("k", integer(TENON_VALUE_U32, 2));
  expect_refused([&] { metadata.boolean("k"); }, "expected true or false, found 2");
  metadata.put("k", text("yes"));
  expect_refused([&] { metadata.boolean("k"); }, "expected true or false, found string");
  expect_refused([&] { metadata.real("k"); }, "expected a number, found string");
}

TEST(Metadata, StringsConvert) {
  MapMetadata metadata;
  metadata.put("k", text("hello"));
  EXPECT_EQ(metadata.string("k"), "hello");
  const tenon_str strings[] = {{"a", 1}, {"bc", 2}};
  metadata.put("k", array(TENON_VALUE_STRING, strings, 2));
  ASSERT_EQ(metadata.strings("k")->size(), 2u);
  EXPECT_EQ((*metadata.strings("k"))[1].size, 2u);
  expect_refused([&] { metadata.string("k"); }, "expected a string, found array of string");
  expect_refused([&] { metadata.integers("k"); }, "expected an array of integers, found array of string");
  expect_refused([&] { metadata.reals("k"); }, "expected an array of numbers, found array of string");
  metadata.put("k", text("hello"));
  expect_refused([&] { metadata.strings("k"); }, "expected an array of strings, found string");
}

TEST(Metadata, ArraysOfEveryNumberConvert) {
  MapMetadata metadata;
  const int8_t i8[] = {-1, 2};
  metadata.put("k", array(TENON_VALUE_I8, i8, 2));
  EXPECT_EQ(metadata.integers("k"), (std::vector<int64_t>{-1, 2}));
  const uint16_t u16[] = {65535, 2};
  metadata.put("k", array(TENON_VALUE_U16, u16, 2));
  EXPECT_EQ(metadata.integers("k"), (std::vector<int64_t>{65535, 2}));
  EXPECT_EQ(metadata.reals("k"), (std::vector<float>{65535, 2}));
  const uint8_t flags[] = {1, 0};
  metadata.put("k", array(TENON_VALUE_BOOL, flags, 2));
  EXPECT_EQ(metadata.integers("k"), (std::vector<int64_t>{1, 0}));
  const uint64_t u64[] = {1, ~0ull};
  metadata.put("k", array(TENON_VALUE_U64, u64, 2));
  expect_refused([&] { metadata.integers("k"); }, "18446744073709551615 is too large");
  const float f32[] = {0.5f, -2};
  metadata.put("k", array(TENON_VALUE_F32, f32, 2));
  EXPECT_EQ(metadata.reals("k"), (std::vector<float>{0.5f, -2}));
  expect_refused([&] { metadata.integers("k"); }, "found array of f32");
  const double f64[] = {0.125};
  metadata.put("k", array(TENON_VALUE_F64, f64, 1));
  EXPECT_EQ(metadata.reals("k"), (std::vector<float>{0.125f}));
  metadata.put("k", array(TENON_VALUE_F64, nullptr, 0));
  EXPECT_TRUE(metadata.reals("k")->empty());
}

}  // namespace
}  // namespace tenon
