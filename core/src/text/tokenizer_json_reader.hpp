// tokenizer_json_reader.hpp: tokenizer.json as it stands: vocabulary and merges in bulk, the rest as small JSON values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

struct TokenizerFile {
  struct Token {
    std::string_view text;
    int64_t id;
  };
  std::string arena;                     // what the views point into
  std::vector<Token> vocabulary;         // of "model"
  std::vector<std::string_view> merges;  // "left right"
  nlohmann::json rest;                   // everything but "model.vocab" and "model.merges"
};

// Copies text of the file into its arena, which has room for all of it.
std::string_view keep(TokenizerFile& file, std::string_view text);

// Throws Error(kFile) with the byte. Depth, counts and memory are bounded by the text's size and constants.
TokenizerFile read_tokenizer_file(std::string_view text);

}  // namespace tenon::text
