// tokenizer_json_steps.hpp: what a tokenizer.json does with text before and after its merges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

struct AddedToken {
  std::string text;
  int64_t id;
  bool is_special;
};

// Understands or refuses; nothing is passed over that would change ids.
class TokenizerSteps {
 public:
  // `file` is all but vocabulary and merges. Throws Error(kFile) naming the part that is not served.
  explicit TokenizerSteps(const nlohmann::json& file);

  const std::vector<AddedToken>& added_tokens() const { return added_; }
  bool is_byte_level() const { return is_byte_level_; }
  const std::string& pretokenizer() const { return pretokenizer_; }  // a name of find_pretokenizer()
  bool composes() const { return composes_; }
  bool adds_space_prefix() const { return adds_space_prefix_; }
  bool ignores_merges() const { return ignores_merges_; }
  const std::string& unknown_token() const { return unknown_; }
  // The token that the template puts before a text; "" = none.
  const std::string& first_token() const { return first_; }
  bool has_template() const { return has_template_; }

 private:
  void read_model(const nlohmann::json& model);
  void read_added(const nlohmann::json& tokens);
  void read_normalizer(const nlohmann::json& step);
  void read_pretokenizer(const nlohmann::json& step);
  void read_postprocessor(const nlohmann::json& step);

  std::vector<AddedToken> added_;
  std::vector<std::string> splits_;  // expressions, in order
  std::string pretokenizer_, unknown_, first_;
  bool is_byte_level_ = false, byte_fallback_ = false, composes_ = false, marks_spaces_ = false;
  bool adds_space_prefix_ = false, ignores_merges_ = false, has_template_ = false;
};

}  // namespace tenon::text
