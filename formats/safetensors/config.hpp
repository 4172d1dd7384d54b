// config.hpp: the JSON files beside the tensors, as typed metadata.
//
//   config.json             under its own keys: "hidden_size", "text_config.rope_parameters.rope_theta"
//   generation_config.json, tokenizer_config.json, hf_quant_config.json   under the file's name:
//   "generation_config.eos_token_id" tokenizer.json          whole, as "tokenizer.huggingface.json": the tokenizer
//   reads it chat_template.jinja     whole, as "tokenizer.chat_template"; else the template of tokenizer_config.json
//
// An object's keys are joined to it by dots. Null, and an array that does not hold numbers, booleans or strings alone,
// gives no key.
#pragma once

#include <tenon/abi.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"

namespace tenon::safetensors {

struct MetaEntry {
  std::string key;
  tenon_value value;  // borrows from the file or from the Config
};

class Config {
 public:
  Config() = default;
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  // `text` is all of the file, mapped. A name that is none of the above is ignored. Throws CORRUPT.
  void add_file(std::string_view name, std::string_view text);
  // Strings under "safetensors.".
  void add_header(const JsonValue& metadata);
  const std::vector<MetaEntry>& entries() const { return entries_; }

 private:
  void add_json(std::string_view file, std::string_view text, const std::string& prefix);
  void add_chat_template(const JsonValue& config);
  void flatten(std::string_view file, const std::string& key, const JsonValue& value);
  void add_array(const std::string& key, const JsonValue& value);
  void add_string(std::string key, std::string_view text);

  std::vector<MetaEntry> entries_;
  std::deque<JsonDocument> documents_;
  std::deque<std::vector<tenon_str>> strings_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<std::vector<double>> reals_;
  std::deque<std::vector<uint8_t>> bools_;
};

// Files that may stand beside the tensors; none must.
const std::vector<std::string>& companion_files();

}  // namespace tenon::safetensors
