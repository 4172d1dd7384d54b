// Files that break the format: each is refused with the file, the field and the byte, and none makes the plugin read
// outside the file or take memory for what is not there.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "fake_host.hpp"
#include "gguf_builder.hpp"

namespace tenon::test {
namespace {

using Builder = GgufBuilder;

Builder valid() {
  Builder builder;
  builder.add_string("general.architecture", "test").add<uint32_t>("general.alignment", Builder::kU32, 32);
  builder.add_array<int32_t>("numbers", Builder::kI32, {1, 2, 3}).add_strings("strings", {"x", "yz"});
  builder.tensor({"weight", 2, {64, 2}, std::string(72, '\1')}).tensor({"bias", 0, {4}, std::string(16, '\2')});
  return builder;
}

// Expects the refusal of `bytes` with a message that has the file's name, `field` and `offset`.
void expect_refused(const std::string& bytes, const std::string& field, size_t offset,
                    tenon_status status = TENON_CORRUPT) {
  const OpenedSet set({{"bad.gguf", bytes}});
  EXPECT_EQ(set.status(), status) << field << ": " << set.message();
  EXPECT_NE(set.message().find("'bad.gguf': " + field), std::string::npos) << field << ": " << set.message();
  EXPECT_NE(set.message().find("at byte " + std::to_string(offset) + ":"), std::string::npos)
      << field << " at " << offset << ": " << set.message();
}

// The same for what the builder writes; `place` is the builder's name of the field.
void expect_refused(Builder& builder, const std::string& field, const std::string& place) {
  const std::string bytes = builder.build();
  expect_refused(bytes, field, builder.place(place));
}

template <typename T>
std::string patched(std::string bytes, size_t offset, T value) {
  return bytes.replace(offset, sizeof value, Builder::bytes_of(value));
}

TEST(GgufHostile, TheUnchangedFileIsValid) {
  Builder builder = valid();
  const OpenedSet set({{"good.gguf", builder.build()}});
  EXPECT_EQ(set.status(), TENON_OK) << set.message();
}

TEST(GgufHostile, RefusesAnotherMagicOrVersion) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  expect_refused(patched(bytes, 0, uint32_t(0x41424344)), "magic", 0);
  for (const uint32_t version : {0u, 1u, 4u, 99u}) {
    expect_refused(patched(bytes, 4, version), "version", 4, TENON_UNSUPPORTED);
    const OpenedSet set({{"bad.gguf", patched(bytes, 4, version)}});
    EXPECT_NE(set.message().find("version " + std::to_string(version)), std::string::npos) << set.message();
  }
  const OpenedSet big({{"bad.gguf", patched(bytes, 4, uint32_t(0x03000000))}});
  EXPECT_EQ(big.status(), TENON_UNSUPPORTED);
  EXPECT_NE(big.message().find("big-endian"), std::string::npos) << big.message();
}

TEST(GgufHostile, RefusesCountsThatTheFileCannotHold) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  for (const int64_t count : {int64_t(-1), INT64_MIN, INT64_MAX, int64_t(1) << 40, int64_t(1000)}) {
    expect_refused(patched(bytes, 8, count), "tensor count", 8);
    expect_refused(patched(bytes, 16, count), "key count", 16);
  }
}

TEST(GgufHostile, RefusesKeysThatBreakTheFormat) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  const size_t key = builder.place("key numbers");
  for (const uint64_t length : {~0ull, 1ull << 62, 100000ull}) {
    expect_refused(patched(bytes, key, length), "length of key 2", key);
  }
  builder = valid();
  builder.add_string("", "x");
  expect_refused(builder, "key 4", "key ");
  builder = valid();
  builder.add_string(std::string(65536, 'k'), "x");
  expect_refused(builder, "key 4", "key " + std::string(65536, 'k'));
  builder = valid();
  builder.add_string("line\nbreak", "x");
  expect_refused(builder, "key 4", "key line\nbreak");
  builder = valid();
  builder.add_string("general.architecture", "again");
  expect_refused(builder, "key 4", "key general.architecture");
}

TEST(GgufHostile, RefusesValuesThatBreakTheFormat) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  expect_refused(patched(bytes, builder.place("type numbers"), uint32_t(13)), "type of key 'numbers'",
                 builder.place("type numbers"));
  const size_t value = builder.place("value numbers");
  expect_refused(patched(bytes, value, uint32_t(77)), "element type of key 'numbers'", value);
  expect_refused(patched(bytes, value, uint32_t(Builder::kArray)), "element type of key 'numbers'", value);
  for (const uint64_t count : {~0ull, 1ull << 61, 1ull << 62, 100000ull}) {
    expect_refused(patched(bytes, value + 4, count), "length of key 'numbers'", value + 4);
  }
  const size_t strings = builder.place("value strings");
  expect_refused(patched(bytes, strings + 4, ~0ull), "length of key 'strings'", strings + 4);
  expect_refused(patched(bytes, strings + 12 + 9, ~0ull), "length of element of key 'strings', index 1",
                 strings + 12 + 9);
  const size_t text = builder.place("value general.architecture");
  expect_refused(patched(bytes, text, 1ull << 40), "length of value of key 'general.architecture'", text);
}

TEST(GgufHostile, RefusesAnAlignmentThatIsNone) {
  for (const uint32_t alignment : {0u, 1u, 3u, 4u, 24u, 48u, 2u << 20, 0x80000000u}) {
    Builder builder = valid();
    std::string bytes = builder.build();
    expect_refused(patched(bytes, builder.place("value general.alignment"), alignment), "key 'general.alignment'",
                   builder.place("key general.alignment"));
  }
  Builder text;
  text.add_string("general.alignment", "32");
  expect_refused(text, "key 'general.alignment'", "key general.alignment");
}

TEST(GgufHostile, RefusesTensorNamesThatBreakTheFormat) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  const size_t name = builder.place("tensor weight");
  expect_refused(patched(bytes, name, ~0ull), "length of name of tensor 0", name);
  for (const std::string& bad :
       {std::string(), std::string(1025, 'n'), std::string("a\0b", 3), std::string("weight")}) {
    builder = valid();
    builder.tensor({bad, 0, {1}, std::string(4, '\0')});
    expect_refused(builder, "name of tensor 2", "tensor " + bad);
  }
  builder = valid();
  builder.tensor({std::string(200, 'n'), 0, {1}, std::string(4, '\0')});
  const OpenedSet longer({{"good.gguf", builder.build()}});
  EXPECT_EQ(longer.status(), TENON_OK) << longer.message();
}

TEST(GgufHostile, RefusesDimensionsThatBreakTheFormat) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  const size_t n_dims = builder.place("n_dims weight");
  for (const uint32_t n : {0u, 5u, ~0u}) expect_refused(patched(bytes, n_dims, n), "tensor 'weight' n_dims", n_dims);
  const size_t rows = builder.place("dim weight 1"), cols = builder.place("dim weight 0");
  for (const int64_t dim : {int64_t(0), int64_t(-1), INT64_MIN}) {
    expect_refused(patched(bytes, rows, dim), "tensor 'weight' dim[1]", rows);
  }
  expect_refused(patched(bytes, rows, INT64_MAX), "tensor 'weight' dim[1]", rows);
  expect_refused(patched(bytes, rows, int64_t(1) << 57), "tensor 'weight' dim[1]", rows);
  // 2^63 / 64 elements: few enough, but their blocks leave the file.
  expect_refused(patched(bytes, rows, int64_t(1) << 56), "tensor 'weight' data", builder.place("tensor weight"));
  expect_refused(patched(bytes, cols, int64_t(48)), "tensor 'weight' dim[0]", builder.place("dtype weight"));
}

TEST(GgufHostile, RefusesASizeThatPassesSixtyFourBits) {
  Builder builder;
  builder.tensor({"huge", 28, {int64_t(1) << 62}, ""});  // f64: 2^65 bytes
  expect_refused(builder, "tensor 'huge' dims", "dtype huge");
}

TEST(GgufHostile, RefusesTypesByTheirNames) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  const size_t type = builder.place("dtype weight");
  for (const uint32_t number : {43u, 1000u, ~0u, 21u + (1u << 31)}) {
    expect_refused(patched(bytes, type, number), "tensor 'weight' type", type, TENON_UNSUPPORTED);
  }
  const std::pair<uint32_t, const char*> named[] = {
      {4, "q4_2"},      {5, "q4_3"},        {9, "q8_1"},        {15, "q8_k"}, {31, "q4_0_4_4"},
      {33, "q4_0_8_8"}, {36, "iq4_nl_4_4"}, {38, "iq4_nl_8_8"}, {41, "q1_0"}, {42, "q2_0"}};
  for (const auto& [number, name] : named) {
    const OpenedSet set({{"bad.gguf", patched(bytes, type, number)}});
    EXPECT_EQ(set.status(), TENON_UNSUPPORTED);
    EXPECT_NE(set.message().find(name + std::string(" (")), std::string::npos) << set.message();
  }
}

TEST(GgufHostile, RefusesTensorsOutsideTheFileOrInEachOther) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  const size_t offset = builder.place("offset bias"), info = builder.place("tensor bias");
  expect_refused(patched(bytes, offset, uint64_t(97)), "tensor 'bias' offset", offset);
  for (const uint64_t place : {uint64_t(128), ~uint64_t(31), uint64_t(1) << 63}) {
    expect_refused(patched(bytes, offset, place), "tensor 'bias' data", info);
  }
  for (const uint64_t place : {uint64_t(0), uint64_t(32), uint64_t(64)}) {
    expect_refused(patched(bytes, offset, place), "tensor 'bias' data", info);
  }
}

TEST(GgufHostile, RefusesTruncationAtEveryByte) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const OpenedSet set({{"bad.gguf", bytes.substr(0, size)}});
    ASSERT_EQ(set.status(), TENON_CORRUPT) << size << " bytes";
    ASSERT_NE(set.message().find("'bad.gguf'"), std::string::npos) << set.message();
  }
}

TEST(GgufHostile, MessagesEscapeWhatTheFileSays) {
  Builder builder = valid();
  builder.tensor({"\x1b[31mred", 0, {1}, std::string(4, '\0')});
  const OpenedSet set({{"bad.gguf", builder.build()}});
  EXPECT_EQ(set.message().find('\x1b'), std::string::npos);
  EXPECT_NE(set.message().find("\\x1b"), std::string::npos) << set.message();
}

// Whatever is accepted must be readable: every byte of every value and tensor is touched.
void touch_everything(const OpenedSet& set, const std::string& bytes) {
  uint64_t sum = 0;
  tenon_value value = {};
  for (const std::string& key : set.keys()) {
    ASSERT_TRUE(set.value(key, &value));
    for (uint64_t i = 0; i < value.string.size; ++i) sum += uint8_t(value.string.data[i]);
    if (value.type != TENON_VALUE_ARRAY || value.element != TENON_VALUE_STRING) continue;
    for (uint64_t i = 0; i < value.count; ++i) {
      const tenon_str text = static_cast<const tenon_str*>(value.data)[i];
      for (uint64_t j = 0; j < text.size; ++j) sum += uint8_t(text.data[j]);
    }
  }
  tenon_tensor tensor = {};
  for (const std::string& name : set.tensors()) {
    ASSERT_TRUE(set.tensor(name, &tensor));
    ASSERT_LE(tensor.plane[0].offset, bytes.size());
    ASSERT_LE(tensor.plane[0].bytes, bytes.size() - tensor.plane[0].offset);
  }
  ASSERT_GE(sum, 0u);
}

TEST(GgufHostile, RandomDamageNeverCrashes) {
  Builder builder = valid();
  const std::string bytes = builder.build();
  std::mt19937_64 random(20240607);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      const size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = char(random());
          break;
        case 1:
          damaged[at] = char(damaged[at] ^ (1 << random() % 8));
          break;
        case 2:
          damaged.erase(at, random() % 9);
          break;
        default:
          damaged.insert(at, random() % 9, char(random()));
          break;
      }
      if (damaged.empty()) damaged.push_back('G');
    }
    const OpenedSet set({{"bad.gguf", damaged}});
    if (set.status() == TENON_OK) {
      touch_everything(set, damaged);
    } else {
      ++refused;
      ASSERT_NE(set.message().find("'bad.gguf'"), std::string::npos) << set.message();
    }
  }
  EXPECT_GT(refused, 500);
}

// What is kept in memory for a key, a tensor or a string is larger than its bytes in the file.
TEST(GgufHostile, RefusesMoreRecordsThanAnyModelHas) {
  Builder builder = valid();
  const std::string bytes = builder.build() + std::string(8 << 20, '\0');
  expect_refused(patched(bytes, 8, int64_t(65537)), "tensor count", 8);
  expect_refused(patched(bytes, 16, int64_t(65537)), "key count", 16);
}

TEST(GgufHostile, RefusesMoreArrayElementsThanAnyModelHas) {
  const std::vector<uint8_t> half((size_t(1) << 23) + 1, 1);
  Builder one;
  one.add_array<uint8_t>("first", Builder::kU8, half);
  const OpenedSet good({{"good.gguf", one.build()}});
  EXPECT_EQ(good.status(), TENON_OK) << good.message();
  Builder two;
  two.add_array<uint8_t>("first", Builder::kU8, half).add_array<uint8_t>("second", Builder::kU8, half);
  const OpenedSet set({{"bad.gguf", two.build()}});
  EXPECT_EQ(set.status(), TENON_CORRUPT);
  EXPECT_NE(set.message().find("length of key 'second'"), std::string::npos) << set.message();
}

TEST(GgufHostile, RefusesControlCharactersBeyondAsciiInNames) {
  Builder builder;
  builder.add_string("general.\xc2\x9b" "31m", "x");
  const OpenedSet set({{"bad.gguf", builder.build()}});
  EXPECT_EQ(set.status(), TENON_CORRUPT);
  EXPECT_NE(set.message().find("control byte 0x9b"), std::string::npos) << set.message();
  Builder accents;  // U+00E9 has the same first half as no control, U+0169 the same second half
  accents.add_string("general.\xc3\xa9\xc5\xa9", "x");
  const OpenedSet good({{"good.gguf", accents.build()}});
  EXPECT_EQ(good.status(), TENON_OK) << good.message();
}

}  // namespace
}  // namespace tenon::test
