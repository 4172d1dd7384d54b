#include <gtest/gtest.h>

#include "vocabularies.hpp"

namespace tenon {
namespace {

using namespace test;

constexpr int32_t kFirst = 256;  // id behind the bytes

TEST(ByteLevelBpe, MergesTheLowestRankFirst) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"ab"}, {"bc"}, {"abc"}}, {"b c", "a b", "a bc"});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->kind(), "bpe/gpt-2");
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{kFirst + 2}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{kFirst}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
}

TEST(ByteLevelBpe, EqualRulesKeepTheFirstRank) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"ab"}, {"bc"}}, {"a b", "b c", "a b"});
  EXPECT_EQ(make_tokenizer(metadata)->encode("abc"), (Ids{kFirst, 'c'}));
}

TEST(ByteLevelBpe, PieceThatIsNoTokenFallsBackToItsBytes) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"abc"}}, {"a b", "ab c"});  // "ab" only helps to reach "abc"
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{kFirst}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{'a', 'b'}));
  EXPECT_EQ(tokenizer->find("ab"), std::nullopt);
  EXPECT_EQ(tokenizer->size(), kFirst + 1);
}

TEST(ByteLevelBpe, Llama3TakesAWholePieceBeforeItMerges) {
  for (const auto& [pre, expected] : std::map<std::string, Ids>{{"llama-bpe", {kFirst}}, {"qwen2", {'a', 'b', 'c'}}}) {
    FakeMetadata metadata;
    set_bpe(metadata, pre, {{"abc"}}, {});  // no rule leads to it
    EXPECT_EQ(make_tokenizer(metadata)->encode("abc"), expected) << pre;
  }
}

TEST(ByteLevelBpe, Llama3AddsBosUnlessTheFileSaysNo) {
  FakeMetadata metadata;
  set_bpe(metadata, "llama-bpe", {{"<|begin_of_text|>", kControl}}, {});
  EXPECT_FALSE(make_tokenizer(metadata)->adds_bos());  // which token would it be?
  metadata.set_integer("tokenizer.ggml.bos_token_id", kFirst);
  EXPECT_EQ(make_tokenizer(metadata)->encode("a"), (Ids{kFirst, 'a'}));
  EXPECT_EQ(make_tokenizer(metadata)->encode("a", {.add_bos = false}), (Ids{'a'}));
  metadata.set_bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(make_tokenizer(metadata)->encode("a"), (Ids{'a'}));
  metadata.set_string("tokenizer.ggml.pre", "qwen35");
  metadata.erase("tokenizer.ggml.add_bos_token");
  EXPECT_FALSE(make_tokenizer(metadata)->adds_bos());
}

TEST(ByteLevelBpe, UncoveredBytesBecomeTheUnknownTokenOrNothing) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.ggml.model", "gpt2");
  metadata.set_string("tokenizer.ggml.pre", "gpt-2");
  set_tokens(metadata, {{"a"}, {"<unk>", kUnknown}});
  metadata.set_strings("tokenizer.ggml.merges", {});
  EXPECT_EQ(make_tokenizer(metadata)->encode("aba"), (Ids{0, 0}));
  metadata.set_integer("tokenizer.ggml.unknown_token_id", 1);
  EXPECT_EQ(make_tokenizer(metadata)->encode("aba"), (Ids{0, 1, 0}));
}

TEST(ByteLevelBpe, MissingPreTokenizerSplitsLikeGpt2AndWarns) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {}, {});
  EXPECT_EQ(make_tokenizer(metadata)->warning(), "");
  metadata.erase("tokenizer.ggml.pre");
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->kind(), "bpe/gpt-2");
  EXPECT_NE(tokenizer->warning().find("tokenizer.ggml.pre"), std::string_view::npos);
}

TEST(ByteLevelBpe, PiecesAreBytes) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"Ġa"}, {"<think>", kUser}, {"Ġ<s>", kControl}, {"[PAD]", kUnused}, {"日"}}, {"Ġ a"});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->piece(kFirst), " a");
  EXPECT_EQ(tokenizer->piece(0xE2), "\xE2");
  EXPECT_EQ(tokenizer->piece(kFirst + 1), "<think>");
  EXPECT_EQ(tokenizer->piece(kFirst + 2), "");
  EXPECT_EQ(tokenizer->piece(kFirst + 2, true), "Ġ<s>");  // spelled as it is: no bytes behind it
  EXPECT_EQ(tokenizer->piece(kFirst + 3, true), "");
  EXPECT_EQ(tokenizer->piece(kFirst + 4), "日");  // stands for no byte
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_EQ(tokenizer->piece(kFirst + 5), "");
  EXPECT_EQ(tokenizer->decode(Ids{kFirst, kFirst + 2, 'b'}), " ab");
}

}  // namespace
}  // namespace tenon
