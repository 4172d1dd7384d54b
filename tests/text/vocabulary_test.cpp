// What the metadata says about tokens, and what is refused.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <tenon/error.hpp>

#include "vocabularies.hpp"

namespace tenon {
namespace {

using namespace test;

constexpr int32_t kFirst = 256;

// The message must name the key.
void expect_refused(const FakeMetadata& metadata, const std::string& key) {
  try {
    make_tokenizer(metadata);
    ADD_FAILURE() << "accepted, though " << key << " is wrong";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
  }
}

using Change = std::function<void(FakeMetadata&)>;

void expect_bpe_refused(const std::string& key, const Change& change) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"ab"}}, {"a b"});
  change(metadata);
  expect_refused(metadata, "tokenizer.ggml." + key);
}

void expect_spm_refused(const std::string& key, const Change& change) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.ggml.model", "llama");
  set_tokens(metadata, byte_tokens());
  change(metadata);
  expect_refused(metadata, "tokenizer.ggml." + key);
}

TEST(Vocabulary, RefusesMissingKeys) {
  for (const char* key : {"model", "tokens", "merges"}) {
    expect_bpe_refused(key, [key](FakeMetadata& m) { m.erase(std::string("tokenizer.ggml.") + key); });
  }
  expect_spm_refused("scores", [](FakeMetadata& m) { m.erase("tokenizer.ggml.scores"); });
}

TEST(Vocabulary, RefusesUnknownKinds) {
  expect_bpe_refused("model", [](FakeMetadata& m) { m.set_string("tokenizer.ggml.model", "t5"); });
  expect_bpe_refused("pre", [](FakeMetadata& m) { m.set_string("tokenizer.ggml.pre", "no-such-model"); });
}

TEST(Vocabulary, RefusesWrongTypes) {
  expect_bpe_refused("model", [](FakeMetadata& m) { m.set_integer("tokenizer.ggml.model", 1); });
  expect_bpe_refused("tokens", [](FakeMetadata& m) { m.set_i32s("tokenizer.ggml.tokens", {1}); });
  expect_bpe_refused("tokens", [](FakeMetadata& m) { m.set_strings("tokenizer.ggml.tokens", {}); });
  expect_bpe_refused("merges", [](FakeMetadata& m) { m.set_string("tokenizer.ggml.merges", "a b"); });
  expect_bpe_refused("token_type", [](FakeMetadata& m) { m.set_strings("tokenizer.ggml.token_type", {"a"}); });
  expect_bpe_refused("eos_token_id", [](FakeMetadata& m) { m.set_string("tokenizer.ggml.eos_token_id", "a"); });
  expect_spm_refused("scores", [](FakeMetadata& m) { m.set_strings("tokenizer.ggml.scores", {"a"}); });
}

TEST(Vocabulary, RefusesShortArraysAndBadEntries) {
  expect_bpe_refused("token_type", [](FakeMetadata& m) { m.set_i32s("tokenizer.ggml.token_type", {1, 1}); });
  expect_bpe_refused("token_type", [](FakeMetadata& m) {
    m.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(kFirst + 1, 7));
  });
  expect_spm_refused("scores", [](FakeMetadata& m) { m.set_f32s("tokenizer.ggml.scores", {1.0f}); });
  expect_spm_refused("scores", [](FakeMetadata& m) {
    m.set_f32s("tokenizer.ggml.scores", std::vector<float>(kFirst, std::numeric_limits<float>::quiet_NaN()));
  });
  expect_spm_refused("token_type", [](FakeMetadata& m) { set_tokens(m, {{"x", kByte}}); });
}

TEST(Vocabulary, RefusesMoreThanAnyVocabularyHas) {
  const auto repeat = [](FakeMetadata& m, const std::string& key, const char* text, size_t count) {
    const std::vector<tenon_str> items(count, m.keep(text));
    m.set_array(key, TENON_VALUE_STRING, items.data(), items.size(), sizeof(tenon_str));
  };
  constexpr size_t kMost = size_t{1} << 22;
  expect_bpe_refused("tokens", [&](FakeMetadata& m) {
    m.erase("tokenizer.ggml.token_type");
    repeat(m, "tokenizer.ggml.tokens", "a", kMost + 1);
  });
  expect_bpe_refused("merges", [&](FakeMetadata& m) { repeat(m, "tokenizer.ggml.merges", "a b", kMost + 1); });
}

TEST(Vocabulary, RefusesTokensLongerThanAnyHas) {
  const auto build = [](const TokenSpec& token) {
    FakeMetadata metadata;
    set_bpe(metadata, "gpt-2", {token}, {"a b"});
    return make_tokenizer(metadata)->size();
  };
  EXPECT_EQ(build({std::string(65535, 'x')}), kFirst + 1);
  EXPECT_THROW(build({std::string(65536, 'x')}), Error);
  // Special tokens are looked for at every place of a text.
  for (const int32_t type : {kControl, kUser, kUnknown}) {
    EXPECT_EQ(build({std::string(1024, 'x'), type}), kFirst + 1);
    EXPECT_THROW(build({std::string(1025, 'x'), type}), Error);
  }
}

TEST(Vocabulary, RefusesSpecialTokensThatTogetherAreTooLong) {
  std::vector<TokenSpec> tokens;
  for (int i = 0; i < 17000; ++i) {
    std::string text = std::to_string(i) + "<";
    tokens.push_back({text + std::string(1024 - text.size(), 'x'), kControl});
  }
  expect_bpe_refused("tokens", [&](FakeMetadata& m) { set_tokens(m, tokens); });
}

TEST(Vocabulary, RefusesMergesThatDoNotParse) {
  for (const char* rule : {"", "ab", " ab", "a ", " "}) {
    expect_bpe_refused("merges", [rule](FakeMetadata& m) { m.set_strings("tokenizer.ggml.merges", {"a b", rule}); });
  }
}

TEST(Vocabulary, IgnoresSpecialIdsOutsideTheVocabulary) {
  FakeMetadata metadata;
  set_bpe(metadata, "llama-bpe", {}, {});
  metadata.set_integer("tokenizer.ggml.bos_token_id", 0xFFFFFFFF);
  metadata.set_integer("tokenizer.ggml.eos_token_id", -1, TENON_VALUE_I32);
  metadata.set_i32s("tokenizer.ggml.suppress_tokens", {-5, 3, kFirst, 3});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
  EXPECT_EQ(Ids(tokenizer->suppressed().begin(), tokenizer->suppressed().end()), (Ids{3}));
}

TEST(Vocabulary, EqualSpellingsKeepTheFirstIdAndWarn) {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2", {{"ab"}, {"ab"}, {""}, {""}, {"abc"}}, {"a b", "ab c"});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(tokenizer->find("ab"), kFirst);
  EXPECT_EQ(tokenizer->find(""), std::nullopt);
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{kFirst}));
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{kFirst + 4}));
  EXPECT_EQ(tokenizer->token(kFirst + 1), "ab");
  EXPECT_NE(tokenizer->warning().find("3 tokens"), std::string_view::npos) << tokenizer->warning();
}

TEST(Vocabulary, UnusedTokensAreNeverSampled) {
  FakeMetadata metadata;
  set_bpe(metadata, "qwen35", {{"[PAD1]", kUnused}, {"[PAD2]", kUnused}}, {});
  metadata.set_i32s("tokenizer.ggml.suppress_tokens", {7});
  const auto tokenizer = make_tokenizer(metadata);
  EXPECT_EQ(Ids(tokenizer->suppressed().begin(), tokenizer->suppressed().end()), (Ids{7, kFirst, kFirst + 1}));
}

TEST(Vocabulary, GenerationEndsAtIdsOfTheFileAndAtControlTokensByTheirText) {
  FakeMetadata metadata;
  set_bpe(metadata, "qwen35",
          {{"<|im_end|>", kControl},
           {"<|endoftext|>", kControl},
           {"</s>", kNormal},
           {"<|eot_id|>", kUser},
           {"x", kControl}},
          {});
  metadata.set_integer("tokenizer.ggml.eot_token_id", 65);
  const auto tokenizer = make_tokenizer(metadata);
  Ids ends;
  for (int32_t id = -1; id <= tokenizer->size(); ++id) {
    if (tokenizer->ends_generation(id)) ends.push_back(id);
  }
  EXPECT_EQ(ends, (Ids{65, kFirst, kFirst + 1}));
}

TEST(Vocabulary, EndOfAMessagePartEndsNothingWhereCallMarkersExist) {
  FakeMetadata metadata;
  set_bpe(metadata, "qwen35", {{"<|end|>", kControl}}, {});
  EXPECT_TRUE(make_tokenizer(metadata)->ends_generation(kFirst));
  set_bpe(metadata, "qwen35", {{"<|end|>", kControl}, {"<|call|>", kControl}}, {});
  EXPECT_FALSE(make_tokenizer(metadata)->ends_generation(kFirst));
  EXPECT_TRUE(make_tokenizer(metadata)->ends_generation(kFirst + 1));
}

TEST(Vocabulary, OutlivesItsMetadata) {
  std::shared_ptr<const Tokenizer> tokenizer;
  {
    FakeMetadata metadata;
    set_bpe(metadata, "gpt-2", {{"ab"}}, {"a b"});
    tokenizer = make_tokenizer(metadata);
  }
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{kFirst}));
  EXPECT_EQ(tokenizer->token(kFirst), "ab");
}

TEST(Vocabulary, TypesMayBeMissing) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.ggml.model", "llama");
  set_tokens(metadata, byte_tokens());
  metadata.erase("tokenizer.ggml.token_type");
  metadata.set_bool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(make_tokenizer(metadata)->encode("\n"), (Ids{'\n'}));
}

}  // namespace
}  // namespace tenon
