// tokenizer.json: what the steps of such files mean, and what is refused by its name.
#include "text/tokenizer_json.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tenon/error.hpp>
#include <tenon/tokenizer.hpp>

#include "fake_metadata.hpp"

namespace tenon {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using test::FakeMetadata;

// Two letters, a space, their merge, and a special token.
Json byte_level() {
  return Json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}, {"id": 5, "content": "<tool>", "special": false}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}]},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u00c3": 6, "\u00a9": 7, "\u00c3\u00a9": 8},
              "merges": ["a b", ["\u00c3", "\u00a9"]]}})");
}

Json characters() {
  return Json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true,
              "vocab": {"<unk>": 0, "\u2581": 1, "a": 2, "\u2581a": 3, "<0xC3>": 4, "<0xA9>": 5}, "merges": [["\u2581", "a"]]}})");
}

std::shared_ptr<const Tokenizer> made(const Json& file, FakeMetadata& metadata) {
  metadata.set_string("tokenizer.huggingface.json", file.dump());
  return make_tokenizer(metadata);
}
std::shared_ptr<const Tokenizer> made(const Json& file) {
  FakeMetadata metadata;
  return made(file, metadata);
}

// A view of a text that went away with the reader may still look right: the bytes behind it are written over here.
TEST(TokenizerJson, KeepsEveryTextThatItAnswers) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.huggingface.json", byte_level().dump());
  const text::TokenizerJson json(metadata);
  char clobber[4096];
  std::fill(std::begin(clobber), std::end(clobber), 'x');
  asm volatile("" : : "r"(clobber) : "memory");
  EXPECT_EQ(json.string("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(json.string("tokenizer.ggml.model"), "gpt2");
}

void expect_refused(const std::string& text, const std::string& what) {
  FakeMetadata metadata;
  metadata.set_string("tokenizer.huggingface.json", text);
  try {
    make_tokenizer(metadata);
    ADD_FAILURE() << "not refused: " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    EXPECT_NE(std::string(error.what()).find("tokenizer.json: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}
void expect_refused(const Json& file, const std::string& what) { expect_refused(file.dump(), what); }

TEST(TokenizerJson, ByteLevelMergesBySpelledPairs) {
  const auto tokenizer = made(byte_level());
  EXPECT_EQ(tokenizer->kind(), "bpe/gpt-2");
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{4, 3, 2, 0}));
  EXPECT_EQ(tokenizer->encode("ab<tool>b", {.add_bos = false}), (Ids{3, 5, 1}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 3, 2, 5}), "ab <tool>");
}

TEST(TokenizerJson, NfcComposesBeforeBytes) {
  Json file = byte_level();
  EXPECT_EQ(made(file)->encode("e\xcc\x81", {.add_bos = false}), Ids{8});  // e and a combining accent
  file["normalizer"] = nullptr;
  EXPECT_NE(made(file)->encode("e\xcc\x81", {.add_bos = false}), Ids{8});
}

TEST(TokenizerJson, CharactersMarkSpacesAndFallBackToBytes) {
  const auto tokenizer = made(characters());
  EXPECT_EQ(tokenizer->encode("a a\xc3\xa9"), (Ids{2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 3, 4, 5}), "a a\xc3\xa9");
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->type(0), TokenType::kUnknown);
}

TEST(TokenizerJson, IdsWithoutATokenAreUnusedUpToTheModelsRows) {
  FakeMetadata metadata;
  metadata.set_integer("text_config.vocab_size", 12);
  metadata.set_integer("generation_config.eos_token_id", 4);
  const auto tokenizer = made(byte_level(), metadata);
  EXPECT_EQ(tokenizer->size(), 12);
  EXPECT_EQ(tokenizer->type(11), TokenType::kUnused);
  EXPECT_EQ(Ids(tokenizer->suppressed().begin(), tokenizer->suppressed().end()), (Ids{9, 10, 11}));
  EXPECT_TRUE(tokenizer->ends_generation(4));
}

TEST(TokenizerJson, WhatIsNotServedIsRefusedByName) {
  const auto with = [](Json file, const char* pointer, const Json& value) {
    file[Json::json_pointer(pointer)] = value;
    return file;
  };
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "\\p{Han}+"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  expect_refused(with(byte_level(), "/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}),
                 "splits by '\\p{Han}+', which is not known");
  expect_refused(with(byte_level(), "/pre_tokenizer", bytes), "splits by nothing");
  expect_refused(with(byte_level(), "/pre_tokenizer", {{"type", "Whitespace"}}),
                 "pre-tokenizer 'Whitespace' is not served");
  expect_refused(with(byte_level(), "/pre_tokenizer", nullptr), "neither byte-level BPE");
  expect_refused(with(byte_level(), "/normalizer", {{"type", "Lowercase"}}), "normalizer 'Lowercase' is not served");
  expect_refused(with(byte_level(), "/post_processor", {{"type", "BertProcessing"}}),
                 "post-processor 'BertProcessing' is not served");
  expect_refused(with(byte_level(), "/model/type", "WordPiece"), "model 'WordPiece' is not served");
  expect_refused(with(byte_level(), "/model/vocab", Json::array({Json::array({"a", -1.5})})),
                 "as a Unigram model has it");
  expect_refused(with(byte_level(), "/model/continuing_subword_prefix", "##"),
                 "continuing_subword_prefix is not served");
  expect_refused(with(byte_level(), "/added_tokens/0/lstrip", true), "has the flag lstrip");
}

TEST(TokenizerJson, RowsThatTheModelClaimsAreFilledUpToALimit) {
  FakeMetadata metadata;
  metadata.set_integer("vocab_size", 20);
  EXPECT_EQ(made(byte_level(), metadata)->size(), 20);
  metadata.set_integer("vocab_size", 1 << 30);
  EXPECT_EQ(made(byte_level(), metadata)->size(), 9 + (1 << 16));
}

TEST(TokenizerJson, BrokenFilesAreRefusedWithThePlace) {
  expect_refused(std::string("{\"model\": {\"vocab\": {\"a\": }}}"), "at byte 27");
  expect_refused(std::string("[]"), "is no object");
  expect_refused(std::string(100000, '['), "nested deeper than 64 levels");
  Json file = byte_level();
  file["model"]["vocab"]["c"] = -1;
  expect_refused(file, "token 'c' has id -1");
  file["model"]["vocab"]["c"] = 1LL << 40;
  expect_refused(file, "expected 0 to 4194303");
  file["model"]["vocab"]["c"] = (1 << 16) + 100;  // memory that the file does not account for
  expect_refused(file, "expected at most 65536 ids without a token");
  file["model"]["vocab"]["c"] = "x";
  expect_refused(file, "the id of token 'c' is no integer");
  file["model"]["vocab"]["c"] = 0;
  expect_refused(file, "have one id");
  file = byte_level();
  file["model"]["merges"] = {1};
  expect_refused(file, "a merge is no pair of texts");
  file["model"]["merges"] = Json::array({Json::array({"a", "b", "c"})});
  expect_refused(file, "a merge is no pair of texts");
  file["model"]["merges"] = {{"a", "b"}};  // an object
  expect_refused(file, "the merges are no list");
  file["model"]["merges"] = Json::array({Json::array({"a b", "c"})});
  expect_refused(file, "merge 0 joins texts with spaces");
}

}  // namespace
}  // namespace tenon
