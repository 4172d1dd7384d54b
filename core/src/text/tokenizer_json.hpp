// tokenizer_json.hpp: a Hugging Face tokenizer.json, seen as the metadata of a GGUF vocabulary.
//
// Byte-level BPE, and BPE over characters with spaces written as U+2581 and unknown characters as bytes. What such a
// file may say and this does not serve (another model, normalizer or pre-tokenizer) is refused by its name.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "source/metadata.hpp"

namespace tenon::text {

inline constexpr std::string_view kTokenizerJsonKey = "tokenizer.huggingface.json";

// What a GGUF file has no key for; read by the tokenizers where it is there.
inline constexpr std::string_view kComposesKey = "tokenizer.composes_characters";  // bool: NFC first
inline constexpr std::string_view kIgnoresMergesKey = "tokenizer.ignores_merges";  // bool
inline constexpr std::string_view kEndIdsKey = "tokenizer.end_token_ids";  // integers: any of them ends the text

// Borrows `model`, the metadata of the files. Immutable.
class TokenizerJson final : public Metadata {
 public:
  // Throws Error(kFile) naming what is malformed or not served, and where.
  explicit TokenizerJson(const Metadata& model);
  TokenizerJson(const TokenizerJson&) = delete;
  TokenizerJson& operator=(const TokenizerJson&) = delete;

  const tenon_value* find(std::string_view key) const override;
  size_t size() const override { return order_.size(); }
  std::string_view key_at(size_t i) const override { return order_[i]; }
  const tenon_value& value_at(size_t i) const override { return values_.at(std::string(order_[i])); }

 private:
  friend class TokenizerJsonBuilder;
  void set(std::string_view key, tenon_value value);
  void set_bool(std::string_view key, bool value);
  void set_integer(std::string_view key, int64_t value);
  void set_string(std::string_view key, std::string_view value);
  void set_array(std::string_view key, uint32_t element, const void* data, size_t count);

  std::string arena_, pads_;  // every token's text
  std::deque<std::string> texts_;  // values of keys
  std::vector<tenon_str> tokens_, merges_;
  std::vector<int32_t> types_;
  std::vector<int64_t> ends_, suppressed_;
  std::map<std::string, tenon_value, std::less<>> values_;
  std::vector<std::string_view> order_;
};

}  // namespace tenon::text
