// A file that layout() describes reads back as what was asked for.
#include <gtest/gtest.h>

#include <cstring>

#include "fake_host.hpp"

namespace tenon::test {
namespace {

tenon_str text_of(const std::string& text) { return {text.data(), text.size()}; }

tenon_value value_of(uint32_t type, int64_t integer, double real = 0) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = type, value.integer = integer, value.real = real;
  return value;
}

tenon_value array_of(uint32_t element, const void* data, uint64_t count) {
  tenon_value value = value_of(TENON_VALUE_ARRAY, 0);
  value.element = element, value.data = data, value.count = count;
  return value;
}

struct Described {
  std::string begin;
  std::vector<uint64_t> offset;
  tenon_status status;
};

Described describe(const std::vector<std::pair<std::string, tenon_value>>& keys,
                   const std::vector<std::pair<std::string, tenon_tensor>>& tensors) {
  std::vector<tenon_entry> entries;
  std::vector<tenon_tensor> records;
  for (const auto& [key, value] : keys) entries.push_back({text_of(key), value});
  for (const auto& [name, tensor] : tensors) records.push_back(tensor), records.back().name = text_of(name);
  Described out;
  out.offset.resize(tensors.size() + 1);
  tenon_layout layout = {};
  layout.struct_size = sizeof layout, layout.entry = entries.data(), layout.n_entry = entries.size();
  layout.tensor = records.data(), layout.n_tensor = records.size(), layout.offset = out.offset.data(), layout.arg = &out.begin;
  layout.put = [](void* arg, const void* bytes, uint64_t n) {
    static_cast<std::string*>(arg)->append(static_cast<const char*>(bytes), n);
  };
  const tenon_format& format = FakeHost::get().format();
  out.status = format.layout(format.self, &layout);
  return out;
}

tenon_tensor tensor_of(const char* dtype, std::vector<int64_t> dims) {
  tenon_tensor tensor = {};
  tensor.struct_size = sizeof tensor, tensor.n_dim = uint32_t(dims.size());
  tensor.dtype = std::string(dtype) == "f32" ? uint32_t(TENON_DTYPE_F32) : FakeHost::get().dtype_id(dtype);
  std::copy(dims.begin(), dims.end(), tensor.dim);
  return tensor;
}

TEST(Layout, ReadsBackAsWhatWasAsked) {
  const std::string name = "test", long_text(300, 'x');
  const tenon_str words[] = {text_of(name), text_of(long_text), {nullptr, 0}};
  const float reals[] = {1.5f, -2.0f};
  const int32_t numbers[] = {-1, 2, 3};
  const uint8_t bits[] = {1, 0, 1};
  tenon_value string = value_of(TENON_VALUE_STRING, 0);
  string.string = text_of(name);
  const Described file = describe({{"general.architecture", string},
                                   {"a.u8", value_of(TENON_VALUE_U8, 200)},
                                   {"a.i8", value_of(TENON_VALUE_I8, -3)},
                                   {"a.u16", value_of(TENON_VALUE_U16, 60000)},
                                   {"a.i64", value_of(TENON_VALUE_I64, -(int64_t{1} << 40))},
                                   {"a.u64", value_of(TENON_VALUE_U64, -1)},
                                   {"a.f32", value_of(TENON_VALUE_F32, 0, 0.25)},
                                   {"a.f64", value_of(TENON_VALUE_F64, 0, 1e-300)},
                                   {"a.yes", value_of(TENON_VALUE_BOOL, 1)},
                                   {"a.words", array_of(TENON_VALUE_STRING, words, 3)},
                                   {"a.reals", array_of(TENON_VALUE_F32, reals, 2)},
                                   {"a.numbers", array_of(TENON_VALUE_I32, numbers, 3)},
                                   {"a.bits", array_of(TENON_VALUE_BOOL, bits, 3)},
                                   {"split.count", value_of(TENON_VALUE_U16, 2)}},
                                  {{"norm", tensor_of("f32", {5})},
                                   {"matrix", tensor_of("q4_k", {512, 3})},
                                   {"experts", tensor_of("q8_0", {32, 2, 3})}});
  ASSERT_EQ(file.status, TENON_OK) << FakeHost::get().message;
  ASSERT_EQ(file.begin.size() % 32, 0u);
  EXPECT_EQ(file.offset[0], file.begin.size());
  EXPECT_EQ(file.offset[1], file.begin.size() + 32);               // 20 bytes and a gap
  EXPECT_EQ(file.offset[2], file.offset[1] + 864);                 // 6 blocks of 144 bytes: a multiple of 32
  EXPECT_EQ(file.offset[3], file.offset[2] + (6 * 34 + 31) / 32 * 32);
  std::string bytes = file.begin;
  bytes.resize(file.offset[3], '\0');

  const OpenedSet set({{"m.gguf", bytes}});
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  tenon_value value;
  const auto integer = [&](const char* key) { return set.value(key, &value) ? value.integer : 99999; };
  EXPECT_EQ(integer("a.u8"), 200);
  EXPECT_EQ(integer("a.i8"), -3);
  EXPECT_EQ(integer("a.u16"), 60000);
  EXPECT_EQ(integer("a.i64"), -(int64_t{1} << 40));
  EXPECT_EQ(integer("a.u64"), -1);
  EXPECT_EQ(integer("a.yes"), 1);
  EXPECT_EQ(value.type, uint32_t(TENON_VALUE_BOOL));
  ASSERT_TRUE(set.value("a.f32", &value));
  EXPECT_EQ(value.real, 0.25);
  ASSERT_TRUE(set.value("a.f64", &value));
  EXPECT_EQ(value.real, 1e-300);
  ASSERT_TRUE(set.value("a.words", &value));
  ASSERT_EQ(value.count, 3u);
  EXPECT_EQ(static_cast<const tenon_str*>(value.data)[1].size, 300u);
  EXPECT_EQ(static_cast<const tenon_str*>(value.data)[2].size, 0u);
  ASSERT_TRUE(set.value("a.numbers", &value));
  EXPECT_EQ(std::memcmp(value.data, numbers, sizeof numbers), 0);
  ASSERT_TRUE(set.value("a.bits", &value));
  EXPECT_EQ(std::memcmp(value.data, bits, sizeof bits), 0);
  EXPECT_FALSE(set.value("split.count", &value));  // the file is whole
  tenon_tensor tensor;
  ASSERT_TRUE(set.tensor("experts", &tensor));
  EXPECT_EQ(tensor.n_dim, 3u);
  EXPECT_EQ(tensor.dim[2], 3);
  EXPECT_EQ(tensor.plane[0].offset, file.offset[2]);
}

TEST(Layout, HonoursTheAlignment) {
  const Described file =
      describe({{"general.alignment", value_of(TENON_VALUE_U32, 4096)}}, {{"a", tensor_of("f32", {3})}, {"b", tensor_of("f32", {3})}});
  ASSERT_EQ(file.status, TENON_OK);
  EXPECT_EQ(file.offset[0], 4096u);
  EXPECT_EQ(file.offset[1], 8192u);
  for (const int64_t bad : {0, 7, 33, -32})
    EXPECT_EQ(describe({{"general.alignment", value_of(TENON_VALUE_I32, bad)}}, {}).status, TENON_INVALID_ARGUMENT) << bad;
}

TEST(Layout, RefusesWhatTheFormatHasNoPlaceFor) {
  tenon_tensor stranger = tensor_of("f32", {32});
  stranger.dtype = 5000;
  EXPECT_EQ(describe({}, {{"x", stranger}}).status, TENON_UNSUPPORTED);
  EXPECT_NE(FakeHost::get().message.find("'x'"), std::string::npos);
  EXPECT_EQ(describe({}, {{std::string(64, 'n'), tensor_of("f32", {1})}}).status, TENON_UNSUPPORTED);
  EXPECT_EQ(describe({}, {{"x", tensor_of("q4_k", {128})}}).status, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(describe({}, {{"x", tensor_of("f32", {int64_t{1} << 40, int64_t{1} << 40})}}).status, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(describe({{"k", value_of(TENON_VALUE_NONE, 0)}}, {}).status, TENON_UNSUPPORTED);
}

}  // namespace
}  // namespace tenon::test
