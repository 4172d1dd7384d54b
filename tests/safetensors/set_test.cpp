// Sets of files: the index, its parts, and the JSON files beside them.
#include <gtest/gtest.h>

#include "fake_host.hpp"
#include "writer.hpp"

namespace tenon::test {
namespace {

const std::string kIndex = "model.safetensors.index.json", kOne = "model-00001-of-00002.safetensors",
                  kTwo = "model-00002-of-00002.safetensors";
std::string part(const std::string& name) { return Writer().tensor(name, "F32", {1}, std::string(4, '\1')).build(); }
std::string index_of(const std::string& a, const std::string& b) {
  return R"({"metadata":{},"weight_map":{"a":")" + a + R"(","b":")" + b + "\"}}";
}
// Absent companions, in the order that the plugin asks for them.
std::vector<tenon_file> with_absent(std::vector<tenon_file> files) {
  files.resize(files.size() + 6);
  return files;
}
std::string refusal(std::vector<tenon_file> files) {
  const OpenedSet set(std::move(files));
  EXPECT_NE(set.status(), TENON_OK);
  return set.message();
}
void expect_in(const std::string& message, const std::string& what) {
  EXPECT_NE(message.find(what), std::string::npos) << message;
}

TEST(Set, AnIndexAsksForItsPartsAndTheFilesBeside) {
  const OpenedSet first({{kIndex, index_of(kOne, kTwo)}});
  const std::vector<std::string> wanted = {kOne,
                                           kTwo,
                                           "config.json",
                                           "generation_config.json",
                                           "hf_quant_config.json",
                                           "chat_template.jinja",
                                           "tokenizer_config.json",
                                           "tokenizer.json"};
  EXPECT_EQ(first.wanted(), wanted);
  const OpenedSet all(with_absent({{kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}, {kTwo, part("b")}}));
  ASSERT_EQ(all.status(), TENON_OK) << all.message();
  EXPECT_EQ(all.tensors(), (std::vector<std::string>{"a", "b"}));
}

TEST(Set, APartAsksForTheIndexThatNamesTheOthers) {
  EXPECT_EQ(OpenedSet({{kTwo, part("b")}}).wanted(), std::vector<std::string>{kIndex});
  const OpenedSet all(with_absent({{kTwo, part("b")}, {kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}}));
  ASSERT_EQ(all.status(), TENON_OK) << all.message();
  EXPECT_EQ(all.tensors().size(), 2u);
  expect_in(refusal({{kTwo, part("b")}, {"", ""}}),
            "'" + kIndex + "', which says what the other parts are, is missing");
}

TEST(Set, PartsMustBeThereAndHoldWhatTheIndexSays) {
  expect_in(refusal(with_absent({{kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}, {"", ""}})),
            "1 file ('" + kTwo + "') missing, with 1 tensors");
  expect_in(refusal(with_absent({{kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}, {kTwo, part("c")}})),
            "lacks 1 tensor ('b')");
  expect_in(refusal(with_absent({{kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}, {kTwo, part("a")}})),
            "stands in '" + kOne + "' as well");
  const std::string both = Writer().tensor("b", "F32", {1}, "abcd").tensor("extra", "F32", {1}, "abcd").build();
  expect_in(refusal(with_absent({{kIndex, index_of(kOne, kTwo)}, {kOne, part("a")}, {kTwo, both}})),
            "does not name 1 tensor ('extra')");
}

TEST(Set, AnIndexNamesPlainFilesOnly) {
  for (const char* name : {"../x.safetensors", "/x.safetensors", "x.bin", ".safetensors", "", "a/b.safetensors"})
    expect_in(refusal({{kIndex, index_of(name, kTwo)}}), "is no plain name of a .safetensors file");
  expect_in(refusal({{kIndex, "{}"}}), "weight_map: expected an object");
  expect_in(refusal({{kIndex, R"({"weight_map":{}})"}}), "names no tensor");
  expect_in(refusal({{kIndex, R"({"weight_map":{"a":1}})"}}), "weight_map 'a' at byte 19");
}

TEST(Set, ConfigurationsBecomeMetadata) {
  const OpenedSet set(
      {{"model.safetensors", part("a")},
       {"config.json",
        R"({"model_type":"x","n":null,"text_config":{"rope":{"theta":1e6},"list":[1,2],"mixed":[1,"a"]}})"},
       {"generation_config.json", R"({"eos_token_id":[1,2]})"},
       {"", ""},
       {"chat_template.jinja", "{{ x }}"},
       {"tokenizer_config.json", R"({"chat_template":"old","bos_token":"<s>"})"},
       {"tokenizer.json", "{}"}});
  ASSERT_EQ(set.status(), TENON_OK) << set.message();
  tenon_value value = {};
  ASSERT_TRUE(set.value("text_config.rope.theta", &value));
  EXPECT_EQ(value.real, 1e6);
  ASSERT_TRUE(set.value("text_config.list", &value));
  EXPECT_EQ(value.count, 2u);
  ASSERT_TRUE(set.value("generation_config.eos_token_id", &value));
  EXPECT_EQ(static_cast<const int64_t*>(value.data)[1], 2);
  ASSERT_TRUE(set.value("tokenizer.chat_template", &value));
  EXPECT_EQ(std::string(value.string.data, value.string.size), "{{ x }}");
  ASSERT_TRUE(set.value("tokenizer.huggingface.json", &value));
  EXPECT_FALSE(set.value("n", &value));
  EXPECT_FALSE(set.value("text_config.mixed", &value));
  EXPECT_TRUE(set.value("tokenizer_config.bos_token", &value));
}

TEST(Set, AConfigurationThatIsBrokenIsNamedWithTheByte) {
  expect_in(refusal({{"model.safetensors", part("a")}, {"config.json", "{\"a\":}"}}),
            "'config.json': JSON at byte 5: expected a value");
  expect_in(refusal({{"model.safetensors", part("a")}, {"config.json", "[]"}}),
            "'config.json': JSON at byte 0: is an array");
}

}  // namespace
}  // namespace tenon::test
