// What a valid GGUF file gives: metadata, tensors, and the parts of a split set.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "fake_host.hpp"
#include "gguf_builder.hpp"

namespace tenon::test {
namespace {

using Builder = GgufBuilder;

std::string read_file(const std::string& name) {
  std::ifstream in(std::string(TENON_TEST_DATA) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Builder small_model() {
  Builder builder;
  builder.add_string("general.architecture", "test").add<uint32_t>("test.block_count", Builder::kU32, 2);
  builder.tensor({"a", 0, {4, 2}, std::string(32, '\1')}).tensor({"b", 2, {64}, std::string(36, '\2')});
  return builder;
}

TEST(GgufParse, GivesEveryTypeOfValue) {
  Builder builder;
  builder.add<uint8_t>("u8", Builder::kU8, 200).add<int8_t>("i8", Builder::kI8, -3);
  builder.add<uint16_t>("u16", Builder::kU16, 60000).add<int16_t>("i16", Builder::kI16, -30000);
  builder.add<uint32_t>("u32", Builder::kU32, 4000000000u).add<int32_t>("i32", Builder::kI32, -5);
  builder.add<uint64_t>("u64", Builder::kU64, ~0ull).add<int64_t>("i64", Builder::kI64, -6);
  builder.add<float>("f32", Builder::kF32, 0.5f).add<double>("f64", Builder::kF64, 0.1);
  builder.add<uint8_t>("bool", Builder::kBool, 7).add_string("string", "h\xc3\xa9");
  const OpenedSet set({{"m.gguf", builder.build()}});
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  EXPECT_EQ(set.keys().size(), 12u);
  const std::pair<const char*, int64_t> integers[] = {{"u8", 200},     {"i8", -3},          {"u16", 60000},
                                                      {"i16", -30000}, {"u32", 4000000000}, {"i32", -5},
                                                      {"u64", -1},     {"i64", -6},         {"bool", 1}};
  const uint32_t types[] = {TENON_VALUE_U8,  TENON_VALUE_I8,  TENON_VALUE_U16, TENON_VALUE_I16, TENON_VALUE_U32,
                            TENON_VALUE_I32, TENON_VALUE_U64, TENON_VALUE_I64, TENON_VALUE_BOOL};
  tenon_value value = {};
  for (size_t i = 0; i < std::size(integers); ++i) {
    ASSERT_TRUE(set.value(integers[i].first, &value));
    EXPECT_EQ(value.type, types[i]) << integers[i].first;
    EXPECT_EQ(value.integer, integers[i].second) << integers[i].first;
  }
  ASSERT_TRUE(set.value("f32", &value));
  EXPECT_EQ(value.real, 0.5);
  ASSERT_TRUE(set.value("f64", &value));
  EXPECT_EQ(value.real, 0.1);
  ASSERT_TRUE(set.value("string", &value));
  EXPECT_EQ(std::string(value.string.data, value.string.size), "h\xc3\xa9");
}

TEST(GgufParse, ArraysAreAlignedWhereverTheyLie) {
  for (const char* shift : {"", "1", "22", "333", "4444", "55555", "666666", "7777777"}) {
    Builder builder;
    builder.add_string("shift", shift);
    builder.add_array<int64_t>("numbers", Builder::kI64, {1, -2, 3})
        .add_array<float>("reals", Builder::kF32, {0.25f, -8});
    builder.add_array<uint8_t>("flags", Builder::kBool, {0, 1, 9})
        .add_strings("strings", {"", "ab", std::string("c\0d", 3)});
    builder.add_array<uint32_t>("none", Builder::kU32, {});
    const OpenedSet set({{"m.gguf", builder.build()}});
    ASSERT_EQ(set.status(), TENON_OK) << set.message();
    tenon_value value = {};
    ASSERT_TRUE(set.value("numbers", &value));
    ASSERT_EQ(value.type, uint32_t(TENON_VALUE_ARRAY));
    ASSERT_EQ(value.element, uint32_t(TENON_VALUE_I64));
    ASSERT_EQ(value.count, 3u);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(value.data) % 8, 0u);
    EXPECT_EQ(static_cast<const int64_t*>(value.data)[1], -2);
    ASSERT_TRUE(set.value("reals", &value));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(value.data) % 4, 0u);
    EXPECT_EQ(static_cast<const float*>(value.data)[1], -8.0f);
    ASSERT_TRUE(set.value("flags", &value));
    EXPECT_EQ(std::string(static_cast<const char*>(value.data), 3), std::string("\0\1\1", 3));
    ASSERT_TRUE(set.value("strings", &value));
    const auto* strings = static_cast<const tenon_str*>(value.data);
    EXPECT_EQ(strings[0].size, 0u);
    EXPECT_EQ(std::string(strings[2].data, strings[2].size), std::string("c\0d", 3));
    ASSERT_TRUE(set.value("none", &value));
    EXPECT_EQ(value.count, 0u);
  }
}

TEST(GgufParse, GivesTensorsWithTheirPlaceInTheFile) {
  Builder builder = small_model();
  for (const uint32_t version : {2u, 3u}) {
    builder.version = version;
    const std::string bytes = builder.build();
    const OpenedSet set({{"m.gguf", bytes}});
    ASSERT_EQ(set.status(), TENON_OK) << set.message();
    EXPECT_EQ(set.tensors(), (std::vector<std::string>{"a", "b"}));
    tenon_tensor tensor = {};
    ASSERT_TRUE(set.tensor("a", &tensor));
    EXPECT_EQ(tensor.dtype, uint32_t(TENON_DTYPE_F32));
    EXPECT_EQ(tensor.n_dim, 2u);
    EXPECT_EQ(tensor.dim[0], 4);
    EXPECT_EQ(tensor.dim[1], 2);
    ASSERT_EQ(tensor.n_plane, 1u);
    EXPECT_EQ(tensor.plane[0].offset, builder.place("data"));
    EXPECT_EQ(tensor.plane[0].bytes, 32u);
    ASSERT_TRUE(set.tensor("b", &tensor));
    EXPECT_EQ(tensor.dtype, FakeHost::get().dtype_id("q4_0"));
    EXPECT_EQ(bytes.substr(tensor.plane[0].offset, tensor.plane[0].bytes), std::string(36, '\2'));
    EXPECT_TRUE(set.wanted().empty());
  }
}

// 64 columns of NVFP4 are 36 bytes.
Builder nvfp4_experts(const std::string& factors, uint32_t type = 0) {
  Builder builder;
  builder.tensor({"x.weight", 40, {64, 1, 2}, std::string(72, '\1')});
  builder.tensor({"x.scale", type, {int64_t(factors.size() / 4)}, factors});
  builder.tensor({"x.input_scale", 0, {2}, std::string(8, '\2')});
  builder.tensor({"y.scale", 0, {2}, std::string(8, '\3')});
  return builder;
}

TEST(GgufParse, AFactorIsAPlaneOfItsNvfp4Tensor) {
  for (const size_t n : {1u, 2u}) {
    Builder builder = nvfp4_experts(std::string(n * 4, '\5'));
    const std::string bytes = builder.build();
    const OpenedSet set({{"m.gguf", bytes}});
    ASSERT_EQ(set.status(), TENON_OK) << set.message();
    EXPECT_EQ(set.tensors(), (std::vector<std::string>{"x.weight", "y.scale"})) << "companions are no tensors";
    tenon_tensor tensor = {};
    ASSERT_TRUE(set.tensor("x.weight", &tensor));
    ASSERT_EQ(tensor.n_plane, 2u);
    EXPECT_EQ(tensor.plane[1].role, uint32_t(TENON_PLANE_MACRO));
    EXPECT_EQ(tensor.plane[1].dtype, uint32_t(TENON_DTYPE_F32));
    EXPECT_EQ(bytes.substr(tensor.plane[1].offset, tensor.plane[1].bytes), std::string(n * 4, '\5'));
  }
  Builder other;  // a type without such companions
  other.tensor({"x.weight", 2, {64}, std::string(36, '\1')}).tensor({"x.scale", 0, {1}, std::string(4, '\2')});
  const OpenedSet set({{"m.gguf", other.build()}});
  EXPECT_EQ(set.tensors(), (std::vector<std::string>{"x.weight", "x.scale"}));
}

TEST(GgufParse, FactorsAreF32OneOrOneAnExpert) {
  for (Builder builder : {nvfp4_experts(std::string(12, '\5')), nvfp4_experts(std::string(8, '\5'), 26)}) {
    const OpenedSet set({{"m.gguf", builder.build()}});
    EXPECT_EQ(set.status(), TENON_CORRUPT);
    for (const char* part : {"m.gguf", "x.scale", "f32 factors of 'x.weight'", "one or 2 of them"})
      EXPECT_NE(set.message().find(part), std::string::npos) << set.message();
  }
}

TEST(GgufParse, FollowsTheDeclaredAlignment) {
  Builder builder = small_model();
  builder.alignment = 4096;
  builder.add<uint32_t>("general.alignment", Builder::kU32, 4096);
  const OpenedSet set({{"m.gguf", builder.build()}});
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  tenon_tensor tensor = {};
  ASSERT_TRUE(set.tensor("b", &tensor));
  EXPECT_EQ(tensor.plane[0].offset % 4096, 0u);
}

TEST(GgufParse, TakesAFileOfMetadataOnly) {
  Builder builder;
  builder.add_string("general.architecture", "test");
  const OpenedSet set({{"vocab.gguf", builder.build()}});
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  EXPECT_TRUE(set.tensors().empty());
  EXPECT_EQ(set.keys().size(), 1u);
}

TEST(GgufParse, ReadsTheTestModels) {
  const OpenedSet gemma({{"gemma3-Q4_0.gguf", read_file("models/gemma3/gemma3-Q4_0.gguf")}});
  ASSERT_EQ(gemma.status(), TENON_OK) << gemma.message();
  EXPECT_EQ(gemma.tensors().size(), 93u);
  EXPECT_EQ(gemma.keys().size(), 31u);
  tenon_value value = {};
  ASSERT_TRUE(gemma.value("tokenizer.ggml.tokens", &value));
  EXPECT_EQ(value.count, 1024u);
  const OpenedSet qwen({{"qwen35-Q4_K_M.gguf", read_file("models/qwen35/qwen35-Q4_K_M.gguf")}});
  ASSERT_EQ(qwen.status(), TENON_OK) << qwen.message();
  EXPECT_EQ(qwen.tensors().size(), 123u);
}

TEST(GgufParse, ProbeKnowsTheMagicOnly) {
  const tenon_format& format = FakeHost::get().format();
  uint32_t score = 7;
  const auto probe = [&](const char* head, uint64_t n) {
    EXPECT_EQ(format.probe(format.self, reinterpret_cast<const uint8_t*>(head), n, {"x.gguf", 6}, &score), TENON_OK);
    return score;
  };
  EXPECT_EQ(probe("GGUF\3\0\0\0", 8), 100u);
  EXPECT_EQ(probe("GGUX\3\0\0\0", 8), 0u);
  EXPECT_EQ(probe("GGU", 3), 0u);
  EXPECT_EQ(probe("", 0), 0u);
}

// Three parts with one tensor each.
std::vector<tenon_file> split_set(const std::string& prefix = "big") {
  std::vector<tenon_file> files;
  for (uint16_t part = 0; part < 3; ++part) {
    Builder builder;
    if (part == 0) builder.add_string("general.architecture", "test");
    builder.add<uint16_t>("split.no", Builder::kU16, part).add<uint16_t>("split.count", Builder::kU16, 3);
    builder.add<int32_t>("split.tensors.count", Builder::kI32, 3);
    builder.tensor({"t" + std::to_string(part), 0, {8}, std::string(32, char('0' + part))});
    files.push_back({prefix + "-0000" + std::to_string(part + 1) + "-of-00003.gguf", builder.build()});
  }
  return files;
}

TEST(GgufSplit, AnyPartNamesTheOthers) {
  for (int part = 0; part < 3; ++part) {
    const OpenedSet set({split_set()[size_t(part)]});
    ASSERT_EQ(set.status(), TENON_OK) << set.message();
    std::vector<std::string> expected;
    for (int other = 0; other < 3; ++other) {
      if (other != part) expected.push_back(split_set()[size_t(other)].name);
    }
    EXPECT_EQ(set.wanted(), expected);
  }
}

TEST(GgufSplit, CompleteSetGivesAllTensorsInAnyOrderOfItsFiles) {
  auto files = split_set();
  std::swap(files[0], files[2]);
  const OpenedSet set(files);
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  EXPECT_TRUE(set.wanted().empty());
  EXPECT_EQ(set.tensors().size(), 3u);
  tenon_tensor tensor = {};
  ASSERT_TRUE(set.tensor("t0", &tensor));
  EXPECT_EQ(tensor.plane[0].file, 2u);
  EXPECT_EQ(files[2].bytes.substr(tensor.plane[0].offset, tensor.plane[0].bytes), std::string(32, '0'));
  tenon_value value = {};
  EXPECT_TRUE(set.value("general.architecture", &value)) << "metadata comes from part 1";
}

TEST(GgufSplit, RefusesPartsThatDoNotBelongTogether) {
  const auto refuse = [](std::vector<tenon_file> files, const std::string& key) {
    const OpenedSet set(std::move(files));
    EXPECT_EQ(set.status(), TENON_CORRUPT);
    EXPECT_NE(set.message().find(key), std::string::npos) << set.message();
  };
  auto files = split_set();
  files[1].name = "renamed.gguf";
  refuse({files[1]}, "split.count");
  files = split_set();
  std::swap(files[0].name, files[1].name);
  refuse({files[0]}, "split.no");
  files = split_set();
  refuse({files[0], files[0], files[1]}, "split.no");
  files = split_set();
  refuse({files[0], files[1], files[2], files[2]}, "split.count");
  files = split_set();
  files[1] = split_set("other")[1];
  refuse(files, "split.no");
  files = split_set();
  Builder twin;
  twin.add<uint16_t>("split.no", Builder::kU16, 2).add<uint16_t>("split.count", Builder::kU16, 3);
  twin.tensor({"t0", 0, {8}, std::string(32, '0')});
  files[2].bytes = twin.build();
  refuse(files, "tensor 't0'");
  Builder more;
  more.add<uint16_t>("split.no", Builder::kU16, 2).add<uint16_t>("split.count", Builder::kU16, 3);
  files[2].bytes = more.build();
  refuse(files, "split.tensors.count");
  Builder four;
  four.add<uint16_t>("split.no", Builder::kU16, 2).add<uint16_t>("split.count", Builder::kU16, 4);
  files[2].bytes = four.build();
  refuse(files, "split.count");
  Builder none;
  none.add<uint16_t>("split.no", Builder::kU16, 0).add<uint16_t>("split.count", Builder::kU16, 0);
  refuse({{"big-00001-of-00003.gguf", none.build()}}, "split.count");
  Builder lone;
  lone.add<uint16_t>("split.count", Builder::kU16, 3);
  refuse({{"big-00001-of-00003.gguf", lone.build()}}, "split.no");
}

}  // namespace
}  // namespace tenon::test
