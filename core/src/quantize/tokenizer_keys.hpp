// tokenizer_keys.hpp: the tokenizer and chat template of a Hugging Face folder as the keys of a GGUF file.
#pragma once

#include "model_file.hpp"
#include "text/tokenizer_json.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace tenon::quantize {

// Holds what the keys borrow.
class TokenizerKeys {
 public:
  // Adds the keys, those apart that are there already: an architecture knows the name of its vocabulary's kind. A folder
  // without tokenizer.json adds none. Throws Error(kFile) for a tokenizer that GGUF has no name for.
  TokenizerKeys(const Metadata& model, FileKeys& out);

 private:
  void copy_types(bool has_markers, FileKeys& out);
  void copy_ids(FileKeys& out);
  void add_scores(FileKeys& out);
  void set_ids(std::string_view key, const std::vector<int64_t>& ids, FileKeys& out);

  std::unique_ptr<text::TokenizerJson> json_;
  std::vector<int32_t> types_;
  std::vector<float> scores_;
  std::deque<std::vector<int32_t>> ids_;
};

}  // namespace tenon::quantize
