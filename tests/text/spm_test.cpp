#include <gtest/gtest.h>

#include "vocabularies.hpp"

namespace tenon {
namespace {

using namespace test;

constexpr int32_t kFirst = 256;

std::vector<TokenSpec> letters() {
  return {{"▁", kNormal, -50}, {"a", kNormal, -51}, {"b", kNormal, -52}, {"c", kNormal, -53}};
}
enum : int32_t { kSpace = kFirst, kA, kB, kC, kNext };

void set_spm(FakeMetadata& metadata, const std::vector<TokenSpec>& extra) {
  metadata.set_string("tokenizer.ggml.model", "llama");
  set_tokens(metadata, byte_tokens() + letters() + extra);
  metadata.set_bool("tokenizer.ggml.add_space_prefix", false);
}

TEST(Spm, JoinsTheHighestScoreFirst) {
  FakeMetadata metadata;
  set_spm(metadata, {{"ab", kNormal, -2}, {"bc", kNormal, -1}, {"abc", kNormal, -9}});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->kind(), "spm");
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{kNext + 2}));
  EXPECT_EQ(tokenizer->encode("abb"), (Ids{kNext, kB}));
}

TEST(Spm, ScoresOfBothSignsAreOrdered) {
  FakeMetadata metadata;
  set_spm(metadata, {{"ab", kNormal, 0.5f}, {"bc", kNormal, -0.5f}});
  EXPECT_EQ(make_tokenizer(metadata)->encode("abc"), (Ids{kNext, kC}));
  set_spm(metadata, {{"ab", kNormal, 0.5f}, {"bc", kNormal, 2.0f}});
  EXPECT_EQ(make_tokenizer(metadata)->encode("abc"), (Ids{kA, kNext + 1}));
  set_spm(metadata, {{"ab", kNormal, -0.0f}, {"bc", kNormal, 0.0f}});  // a tie: from the left
  EXPECT_EQ(make_tokenizer(metadata)->encode("abc"), (Ids{kNext, kC}));
}

TEST(Spm, UncoveredTextBecomesBytes) {
  FakeMetadata metadata;
  set_spm(metadata, {});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->encode("aéb"), (Ids{kA, 0xC3, 0xA9, kB}));
  EXPECT_EQ(tokenizer->encode("a\xC3"
                              "b"),
            (Ids{kA, 0xC3, kB}));
  EXPECT_EQ(tokenizer->decode(Ids{kA, 0xC3, 0xA9, kSpace, kB}), "aé b");
}

TEST(Spm, WithoutByteTokensAnUncoveredCharacterIsOneUnknown) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.ggml.model", "llama");
  set_tokens(metadata, {{"<unk>", kUnknown}, {"a", kNormal}});
  metadata.set_bool("tokenizer.ggml.add_space_prefix", false);
  metadata.set_integer("tokenizer.ggml.unknown_token_id", 0);
  EXPECT_EQ(make_tokenizer(metadata)->encode("a€a"), (Ids{1, 0, 1}));
}

TEST(Spm, SpacePrefixComesFirstAndBehindSpecialTokens) {
  FakeMetadata metadata;
  set_spm(metadata, {{"▁a", kNormal, -1}, {"<s>", kControl}});
  metadata.erase("tokenizer.ggml.add_space_prefix");
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_TRUE(tokenizer->drops_leading_space());
  EXPECT_EQ(tokenizer->encode("a<s>a a"), (Ids{kNext, kNext + 1, kNext, kNext}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a a")), "a a");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" a")), " a");
  EXPECT_EQ(tokenizer->decode(Ids{kNext + 1, kNext}), "a");  // a control token does not count as the beginning
  EXPECT_EQ(tokenizer->decode(Ids{kNext + 1, kNext}, true), "<s>a");
}

TEST(Spm, BosIsAddedByDefaultAndToEmptyText) {
  FakeMetadata metadata;
  set_spm(metadata, {{"<s>", kControl}});
  metadata.set_integer("tokenizer.ggml.bos_token_id", kNext);
  EXPECT_EQ(make_tokenizer(metadata)->encode(""), (Ids{kNext}));
  metadata.set_bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(make_tokenizer(metadata)->encode(""), Ids{});
}

TEST(Spm, TextNeverBecomesAControlToken) {
  FakeMetadata metadata;
  set_spm(metadata, {{"ab", kControl, 5}, {"abc", kNormal, 1}});
  EXPECT_EQ(make_tokenizer(metadata)->encode("ab", {.parse_special = false}), (Ids{kA, kB}));
}

// Cutting where no token crosses must not change what is joined: compare with a vocabulary whose extra token makes
// every pair of letters meet, and which no text here contains.
TEST(Spm, CuttingTextAtBordersChangesNothing) {
  const std::vector<TokenSpec> tokens = {
      {"ab", kNormal, -3}, {"▁a", kNormal, -2}, {"a▁", kNormal, -1}, {"▁▁", kNormal, -4}};
  FakeMetadata cut, whole;
  set_spm(cut, tokens);
  std::string everything;
  for (const char* left : {"a", "b", "c", "▁"}) {
    for (const char* right : {"a", "b", "c", "▁"}) everything += std::string(left) + right + "#";
  }
  set_spm(whole, tokens + std::vector<TokenSpec>{{everything, kNormal, -99}});
  const auto a = make_tokenizer(cut), b = make_tokenizer(whole);
  for (int number = 0; number < 4 * 4 * 4 * 4 * 4 * 4; ++number) {
    std::string text;
    for (int rest = number, i = 0; i < 6; ++i, rest /= 4) text += "abc "[rest % 4];
    ASSERT_EQ(a->encode(text), b->encode(text)) << text;
  }
}

}  // namespace
}  // namespace tenon
