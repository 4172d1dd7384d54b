// Ids and texts that other implementations gave for the same vocabulary.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tenon/tokenizer.hpp>

#include "fake_metadata.hpp"
#include "mini_gguf.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// Any GGUF file of the folder: they carry the same vocabulary.
fs::path find_gguf(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") return entry.path();
  }
  return {};
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Every tokenizer.json below the folder must give exactly the ids of the library that the file is written for.
void check_tokenizer_files(const fs::path& folder, const nlohmann::json& golden) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path path = entry.path() / "tokenizer.json";
    if (entry.path().filename() == "golden" || !fs::exists(path)) continue;
    SCOPED_TRACE(path.string());
    test::FakeMetadata metadata;
    metadata.set_string("tokenizer.huggingface.json", read_text(path));
    const auto tokenizer = make_tokenizer(metadata);
    for (const auto& item : golden) {
      const auto text = item.at("text").get<std::string>();
      EXPECT_EQ(tokenizer->encode(text), item.at("ids").get<Ids>()) << text;
    }
  }
}

// Models whose folder has a golden/tokenizer.json; returns how many there were.
int check_models(const fs::path& root) {
  int n_models = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const fs::path golden = entry.path() / "golden" / "tokenizer.json";
    if (!entry.is_directory() || !fs::exists(golden)) continue;
    SCOPED_TRACE(golden.string());
    ++n_models;
    check_tokenizer_files(entry.path(), read_json(golden));
    if (find_gguf(entry.path()).empty()) continue;
    const auto tokenizer = make_tokenizer(*test::MiniGguf::read(find_gguf(entry.path()).string()));
    for (const auto& item : read_json(golden)) {
      const auto text = item.at("text").get<std::string>();
      const auto ids = item.at("ids").get<Ids>();
      // Where two implementations differ, one composes characters before it looks (NFC) and one, like this, does not.
      const Ids expected = item.contains("other_tokenizer") ? item.at("other_tokenizer").get<Ids>() : ids;
      EXPECT_EQ(tokenizer->encode(text), expected) << text;
      // The goldens leave out every special token; a user-defined one is text here, as its type in the file says.
      std::string decoded;
      for (int32_t id : ids) {
        const bool is_marker = tokenizer->type(id) == TokenType::kUserDefined && tokenizer->token(id).front() == '<';
        if (!is_marker) decoded += tokenizer->piece(id);
      }
      EXPECT_EQ(decoded, item.at("decoded").get<std::string>()) << text;
    }
  }
  return n_models;
}

TEST(TokenizerGolden, ModelsOfTheRepositoryGiveTheGoldenIds) {
  EXPECT_GE(check_models(fs::path(TENON_TEST_DATA) / "models"), 1);
}

TEST(TokenizerGolden, MoreModelsGiveTheGoldenIds) {
  const char* root = std::getenv("TENON_TEST_MODELS");
  if (root == nullptr || *root == 0)
    GTEST_SKIP() << "set TENON_TEST_MODELS to a folder of models with golden/tokenizer.json";
  EXPECT_GE(check_models(root), 1);
}

// Without BOS and without special tokens. Text comes back as it was.
TEST(TokenizerGolden, ReleasedVocabulariesGiveTheGoldenIds) {
  const char* root = std::getenv("TENON_TEST_TEXT");
  if (root == nullptr || *root == 0)
    GTEST_SKIP() << "set TENON_TEST_TEXT to a folder with vocab/*.gguf and vocab/*.json";
  int n_vocabularies = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(root) / "vocab")) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().string());
    ++n_vocabularies;
    const auto tokenizer = make_tokenizer(*test::MiniGguf::read(entry.path().string()));
    for (const auto& item : read_json(fs::path(entry.path()).replace_extension(".json"))) {
      const auto text = item.at("text").get<std::string>();
      const Ids ids = tokenizer->encode(text, {.add_bos = false, .parse_special = false});
      EXPECT_EQ(ids, item.at("ids").get<Ids>()) << text;
      EXPECT_EQ(tokenizer->decode(ids), text);
    }
  }
  EXPECT_GE(n_vocabularies, 1);
}

}  // namespace
}  // namespace tenon
