#include <gtest/gtest.h>

#include "vocabularies.hpp"

namespace tenon {
namespace {

using namespace test;

enum : int32_t {
  kBos = 256,
  kSpace,
  kA,
  kB,
  kNewline,
  kTwoNewlines,
  kAB,
  kNewlineA,
  kCallOpen,
  kResponse,
  kTurnEnd,
  kEndS
};

void set_gemma4(FakeMetadata& metadata) {
  metadata.set_string("tokenizer.ggml.model", "gemma4");
  set_tokens(metadata, byte_tokens() + std::vector<TokenSpec>{{"<bos>", kControl},
                                                              {"▁"},
                                                              {"a"},
                                                              {"b"},
                                                              {"\n"},
                                                              {"\n\n"},
                                                              {"ab"},
                                                              {"\na"},
                                                              {"<|tool_call>", kControl},
                                                              {"<|tool_response>", kUser},
                                                              {"<turn|>", kControl},
                                                              {"</s>", kControl}});
  metadata.set_strings("tokenizer.ggml.merges", {"\n a", "a b"});
  metadata.set_integer("tokenizer.ggml.bos_token_id", kBos);
}

TEST(Gemma4, BosIsForced) {
  FakeMetadata metadata;
  set_gemma4(metadata);
  metadata.set_bool("tokenizer.ggml.add_bos_token", false);
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->kind(), "gemma4");
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{kBos, kAB}));
  EXPECT_EQ(tokenizer->encode("ab", {.add_bos = false}), (Ids{kAB}));
}

TEST(Gemma4, NewlineRunsStandAlone) {
  FakeMetadata metadata;
  set_gemma4(metadata);
  const auto tokenizer = make_tokenizer(metadata);
  const EncodeOptions plain{.add_bos = false};
  EXPECT_EQ(tokenizer->encode("\n\n", plain), (Ids{kTwoNewlines}));  // though no rule makes it
  EXPECT_EQ(tokenizer->encode("\n\n\n", plain), (Ids{kNewline, kNewline, kNewline}));
  EXPECT_EQ(tokenizer->encode("\nab", plain), (Ids{kNewline, kAB}));  // the rule "\n a" never applies
}

TEST(Gemma4, SpacesAreMarksWithoutAPrefixAndOtherTextIsBytes) {
  FakeMetadata metadata;
  set_gemma4(metadata);
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_FALSE(tokenizer->drops_leading_space());
  EXPECT_EQ(tokenizer->encode(" a é", {.add_bos = false}), (Ids{kSpace, kA, kSpace, 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->decode(Ids{kBos, kSpace, kA, kSpace, 0xC3, 0xA9}), " a é");
}

TEST(Gemma4, ToolMarkersAreTextAndTheResponseMarkerEndsGeneration) {
  FakeMetadata metadata;
  set_gemma4(metadata);
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->type(kCallOpen), TokenType::kUserDefined);
  EXPECT_EQ(tokenizer->piece(kCallOpen), "<|tool_call>");
  EXPECT_FALSE(tokenizer->ends_generation(kCallOpen));
  EXPECT_TRUE(tokenizer->ends_generation(kResponse));
  EXPECT_TRUE(tokenizer->ends_generation(kTurnEnd));
  EXPECT_FALSE(tokenizer->ends_generation(kEndS));
}

}  // namespace
}  // namespace tenon
