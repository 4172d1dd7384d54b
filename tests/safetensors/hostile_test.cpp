// Files that break the format: each is refused with the file, the tensor, what is wrong and the byte.
#include <gtest/gtest.h>

#include <random>

#include "fake_host.hpp"
#include "writer.hpp"

namespace tenon::test {
namespace {

void expect_refused(const std::string& bytes, const std::string& what, tenon_status status = TENON_CORRUPT) {
  const OpenedSet set({{"bad.safetensors", bytes}});
  EXPECT_EQ(set.status(), status) << what << ": " << set.message();
  EXPECT_NE(set.message().find("'bad.safetensors': "), std::string::npos) << set.message();
  EXPECT_NE(set.message().find(what), std::string::npos) << what << ": " << set.message();
}

std::string entry(const std::string& name, const std::string& rest) { return "\"" + name + "\":{" + rest + "}"; }
const std::string kF32x4 = R"("dtype":"F32","shape":[4],"data_offsets":[0,16])";

TEST(SafetensorsHostile, TheUnchangedFileIsValid) {
  const OpenedSet set({{"good.safetensors", with_header("{" + entry("w", kF32x4) + "}", std::string(16, '\1'))}});
  EXPECT_EQ(set.status(), TENON_OK) << set.message();
  EXPECT_EQ(set.tensors(), std::vector<std::string>{"w"});
}

TEST(SafetensorsHostile, RefusesALengthThatTheFileDoesNotHave) {
  expect_refused("", "the header's length at byte 0: needs 8 bytes");
  expect_refused("1234567", "needs 8 bytes, but the file has 7");
  expect_refused(bytes_of<uint64_t>({3}) + "{}", "3 bytes, but only 2 remain");
  expect_refused(bytes_of<uint64_t>({UINT64_MAX}) + "{}", "expected at most 100000000");
  expect_refused(bytes_of<uint64_t>({100'000'001}) + "{}", "expected at most 100000000");
}

TEST(SafetensorsHostile, RefusesAHeaderThatIsNoObjectOfTensors) {
  expect_refused(with_header("[]", ""), "the header at byte 8: is an array, expected an object");
  expect_refused(with_header("{\"w\":1}", ""), "tensor 'w' dtype at byte 13: expected a string");
  expect_refused(with_header("{\"w\":{}}", ""), "tensor 'w' dtype");
  expect_refused(with_header("{\"\":{}}", ""), "a name of 0 bytes");
  expect_refused(with_header("{" + entry("w", R"("dtype":"F32")") + "}", ""), "tensor 'w' shape");
  expect_refused(with_header("{" + entry("w", R"("dtype":"F32","shape":[4],"data_offsets":[0])") + "}", ""),
                 "expected two numbers");
  expect_refused(
      with_header("{" + entry("w", R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])") + "}", std::string(16, 'x')),
      "tensor 'w' shape");
  expect_refused(
      with_header("{" + entry("w", R"("dtype":"F32","shape":[4.0],"data_offsets":[0,16])") + "}", std::string(16, 'x')),
      "tensor 'w' shape");
  expect_refused(with_header("{\"__metadata__\":{\"a\":1}}", ""), "__metadata__ 'a'");
}

TEST(SafetensorsHostile, RefusesTensorsThatDoNotTileTheData) {
  const auto two = [](const char* a, const char* b) {
    return with_header("{" + entry("a", std::string(R"("dtype":"U8","shape":[4],"data_offsets":)") + a) + "," +
                           entry("b", std::string(R"("dtype":"U8","shape":[4],"data_offsets":)") + b) + "}",
                       std::string(8, 'x'));
  };
  EXPECT_EQ(OpenedSet({{"good.safetensors", two("[4,8]", "[0,4]")}}).status(), TENON_OK);
  expect_refused(two("[0,4]", "[2,6]"),
                 "tensor 'b' data_offsets at byte 65: begins at byte 2 of the data, inside tensor 'a'");
  expect_refused(two("[1,5]", "[4,8]"), "a hole");
  expect_refused(two("[0,4]", "[0,4]"), "inside tensor 'a'");
  expect_refused(two("[0,4]", "[4,9]"), "leave the data, which has 8 bytes (is the file complete?)");
  expect_refused(two("[0,4]", "[8,4]"), "leave the data");
  expect_refused(two("[0,4]", "[4,7]"), "3 bytes, but shape and dtype mean 4");
  expect_refused(with_header("{" + entry("w", kF32x4) + "}", std::string(17, 'x')),
                 "1 bytes behind the last tensor belong to none");
  expect_refused(with_header("{" + entry("w", kF32x4) + "}", std::string(15, 'x')),
                 "leave the data, which has 15 bytes");
}

TEST(SafetensorsHostile, RefusesTypesAndShapesByName) {
  expect_refused(
      with_header("{" + entry("w", R"("dtype":"F33","shape":[4],"data_offsets":[0,16])") + "}", std::string(16, 'x')),
      "'F33' is not known", TENON_UNSUPPORTED);
  expect_refused(Writer().tensor("w", "F8_E5M2", {4}, "abcd").build(), "type F8_E5M2 is not served", TENON_UNSUPPORTED);
  const std::string huge = "4611686018427387904";
  expect_refused(
      with_header("{" + entry("w", R"("dtype":"U8","shape":[)" + huge + "," + huge + R"(],"data_offsets":[0,0])") + "}",
                  ""),
      "more than 2^63 elements");
}

TEST(SafetensorsHostile, SurvivesEveryCutAndChangedByte) {
  const std::string bytes = Writer()
                                .tensor("x.weight", "F8_E4M3", {2, 16}, std::string(32, '\x38'))
                                .tensor("x.weight_scale", "F32", {2, 1}, bytes_of<float>({1, 2}))
                                .tensor("norm", "BF16", {3}, std::string(6, '\1'))
                                .build();
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_NE(OpenedSet({{"cut.safetensors", bytes.substr(0, n)}}).status(), TENON_OK) << n;
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = bytes;
    for (int k = 1 + int(random() % 3); k > 0; --k) changed[random() % changed.size()] = char(random());
    const OpenedSet set({{"changed.safetensors", changed}});
    if (set.status() != TENON_OK) {
      EXPECT_FALSE(set.message().empty());
      continue;
    }
    for (const std::string& name : set.tensors()) {
      tenon_tensor tensor = {};
      ASSERT_TRUE(set.tensor(name, &tensor));
      for (uint32_t p = 0; p < tensor.n_plane; ++p)
        EXPECT_LE(tensor.plane[p].offset + tensor.plane[p].bytes, changed.size());
    }
  }
}

}  // namespace
}  // namespace tenon::test
