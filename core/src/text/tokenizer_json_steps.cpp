#include "text/tokenizer_json_steps.hpp"

#include <algorithm>
#include <tenon/error.hpp>

namespace tenon::text {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSpaceMarkText = "\xe2\x96\x81";

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::kFile, "tokenizer.json: " + what); }

// Expressions of released files, line breaks written as \r and \n; several are applied one after another.
struct KnownSplit {
  std::string_view pretokenizer;
  std::vector<std::string_view> expressions;
};

const std::vector<KnownSplit>& known_splits() {
  static const std::vector<KnownSplit> all = {
      {"gpt-2", {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}},
      {"llama3",
       {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {"qwen2",
       {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {"qwen35",
       {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {"deepseek-v3",
       {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
  };
  return all;
}

std::string with_named_breaks(const std::string& expression) {
  std::string out;
  for (const char c : expression) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

const Json& member(const Json& object, const char* name) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

std::string text_of(const Json& object, const char* name, const std::string& fallback = "") {
  const Json& value = member(object, name);
  if (value.is_null()) return fallback;
  if (!value.is_string()) fail(std::string(name) + ": expected a text");
  return value.get<std::string>();
}

bool flag_of(const Json& object, const char* name, bool fallback) {
  const Json& value = member(object, name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) fail(std::string(name) + ": expected true or false");
  return value.get<bool>();
}

// Text for a message; the file's own may hold anything.
std::string shown(const std::string& text) { return "'" + text.substr(0, 200) + "'"; }

[[noreturn]] void refuse(const char* part, const std::string& type) {
  fail(std::string(part) + " " + shown(type) + " is not served");
}

// Calls body for the steps of a sequence, or for the one step; null = none.
template <typename Body>
void each_step(const Json& step, const char* list, const Body& body) {
  if (step.is_null()) return;
  if (text_of(step, "type") != "Sequence") return body(step);
  const Json& steps = member(step, list);
  if (!steps.is_array()) fail(std::string(list) + ": expected an array");
  for (const Json& one : steps) body(one);
}

}  // namespace

TokenizerSteps::TokenizerSteps(const Json& file) {
  read_model(member(file, "model"));
  read_added(member(file, "added_tokens"));
  each_step(member(file, "normalizer"), "normalizers", [this](const Json& step) { read_normalizer(step); });
  each_step(member(file, "pre_tokenizer"), "pretokenizers", [this](const Json& step) { read_pretokenizer(step); });
  each_step(member(file, "post_processor"), "processors", [this](const Json& step) { read_postprocessor(step); });
  if (is_byte_level_) {
    if (marks_spaces_ || byte_fallback_)
      fail("the pre-tokenizer writes bytes, but the model or the normalizer spells them otherwise");
    for (const KnownSplit& known : known_splits())
      if (std::equal(splits_.begin(), splits_.end(), known.expressions.begin(), known.expressions.end()))
        pretokenizer_ = known.pretokenizer;
    if (pretokenizer_.empty()) {
      std::string all;
      for (const std::string& split : splits_) all += (all.empty() ? "" : ", then ") + shown(split);
      fail("the pre-tokenizer splits by " + (all.empty() ? "nothing" : all) +
           ", which is not known; known are those of gpt-2, llama3, qwen2, qwen35 and deepseek-v3");
    }
  } else if (!marks_spaces_ || !byte_fallback_ || composes_ || !splits_.empty()) {
    fail(
        "neither byte-level BPE (a ByteLevel pre-tokenizer) nor BPE over characters (spaces replaced by U+2581, "
        "byte_fallback)");
  }
}

void TokenizerSteps::read_model(const Json& model) {
  if (!model.is_object()) fail("model: expected an object");
  if (const std::string type = text_of(model, "type", "BPE"); type != "BPE") refuse("model", type);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_of(model, name).empty()) fail(std::string("model.") + name + " is not served");
  const Json& dropout = member(model, "dropout");
  if (!dropout.is_null() && dropout != 0) fail("model.dropout is not served");
  byte_fallback_ = flag_of(model, "byte_fallback", false);
  ignores_merges_ = flag_of(model, "ignore_merges", false);
  unknown_ = text_of(model, "unk_token");
}

void TokenizerSteps::read_added(const Json& tokens) {
  if (tokens.is_null()) return;
  if (!tokens.is_array()) fail("added_tokens: expected an array");
  for (const Json& token : tokens) {
    const Json& id = member(token, "id");
    if (!id.is_number_integer()) fail("added_tokens: a token has no id");
    const std::string text = text_of(token, "content");
    if (text.empty()) fail("added_tokens: token " + id.dump() + " has no content");
    for (const char* flag : {"lstrip", "rstrip", "single_word"})
      if (flag_of(token, flag, false))
        fail("added_tokens: " + shown(text) + " has the flag " + flag + ", which is not served");
    const int64_t number = id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX ? -1 : id.get<int64_t>();
    added_.push_back({text, number, flag_of(token, "special", false)});
  }
}

void TokenizerSteps::read_normalizer(const Json& step) {
  const std::string type = text_of(step, "type");
  if (type == "NFC") {
    composes_ = true;
  } else if (type == "Prepend" && text_of(step, "prepend") == kSpaceMarkText) {
    adds_space_prefix_ = true;
  } else if (type == "Replace" && text_of(member(step, "pattern"), "String") == " " &&
             text_of(step, "content") == kSpaceMarkText) {
    marks_spaces_ = true;
  } else {
    refuse("normalizer", type);
  }
}

void TokenizerSteps::read_pretokenizer(const Json& step) {
  const std::string type = text_of(step, "type");
  if (type == "ByteLevel") {
    if (flag_of(step, "add_prefix_space", true)) fail("pre-tokenizer ByteLevel with add_prefix_space is not served");
    is_byte_level_ = true;
    if (flag_of(step, "use_regex", true)) splits_.emplace_back(known_splits()[0].expressions[0]);
    return;
  }
  if (type != "Split") refuse("pre-tokenizer", type);
  const Json& pattern = member(step, "pattern");
  const std::string behavior = text_of(step, "behavior");
  if (text_of(pattern, "String") == " " && marks_spaces_) return;  // there is none left to split at
  const std::string expression = with_named_breaks(text_of(pattern, "Regex"));
  if (expression.empty()) refuse("pre-tokenizer Split at", text_of(pattern, "String"));
  const bool inverted = flag_of(step, "invert", false);
  // Both keep every piece: the matches and what lies between them.
  if (!(behavior == "Isolated" && !inverted) && !(behavior == "Removed" && inverted))
    refuse("pre-tokenizer Split with behavior", behavior);
  splits_.push_back(expression);
}

void TokenizerSteps::read_postprocessor(const Json& step) {
  const std::string type = text_of(step, "type");
  if (type == "ByteLevel") return;  // concerns offsets alone
  if (type != "TemplateProcessing") refuse("post-processor", type);
  has_template_ = true;
  const Json& single = member(step, "single");
  if (!single.is_array()) fail("post_processor.single: expected an array");
  bool behind_text = false;
  for (const Json& part : single) {
    if (!member(part, "Sequence").is_null()) {
      behind_text = true;
      continue;
    }
    const std::string token = text_of(member(part, "SpecialToken"), "id");
    if (behind_text || !first_.empty() || token.empty())
      fail("post_processor.single: only one token before the text is served");
    first_ = token;
  }
}

}  // namespace tenon::text
