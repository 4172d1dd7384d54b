// vocabularies.hpp: small vocabularies for tests, as metadata that each test changes.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <tenon/tokenizer.hpp>
#include <vector>

#include "fake_metadata.hpp"
#include "text/byte_map.hpp"

namespace tenon::test {

enum : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };

struct TokenSpec {
  std::string text;
  int32_t type = kNormal;
  float score = 0;
};

inline void set_tokens(FakeMetadata& metadata, const std::vector<TokenSpec>& tokens) {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const TokenSpec& token : tokens) {
    texts.push_back(token.text);
    types.push_back(token.type);
    scores.push_back(token.score);
  }
  metadata.set_strings("tokenizer.ggml.tokens", texts);
  metadata.set_i32s("tokenizer.ggml.token_type", types);
  metadata.set_f32s("tokenizer.ggml.scores", scores);
}

inline std::string byte_token(int byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", byte);
  return text;
}

// Ids 0-255: the bytes, as byte tokens.
inline std::vector<TokenSpec> byte_tokens() {
  std::vector<TokenSpec> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({byte_token(byte), kByte});
  return tokens;
}

// Ids 0-255: the bytes, as the stand-ins of byte-level BPE.
inline std::vector<TokenSpec> stand_in_tokens() {
  std::vector<TokenSpec> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    text::append_utf8(text, text::stand_in_of(static_cast<uint8_t>(byte)));
    tokens.push_back({text});
  }
  return tokens;
}

inline std::vector<TokenSpec> operator+(std::vector<TokenSpec> a, const std::vector<TokenSpec>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Byte-level BPE without a BOS token.
inline void set_bpe(FakeMetadata& metadata, const std::string& pre, const std::vector<TokenSpec>& extra,
                    const std::vector<std::string>& merges) {
  metadata.set_string("tokenizer.ggml.model", "gpt2");
  metadata.set_string("tokenizer.ggml.pre", pre);
  set_tokens(metadata, stand_in_tokens() + extra);
  metadata.set_strings("tokenizer.ggml.merges", merges);
}

using Ids = std::vector<int32_t>;

}  // namespace tenon::test
