#include "text/tokenizer_json.hpp"

#include <algorithm>
#include <tenon/error.hpp>

#include "text/tokenizer_json_reader.hpp"
#include "text/tokenizer_json_steps.hpp"
#include "text/vocabulary.hpp"

namespace tenon::text {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostIds = int64_t{1} << 22;
// Ids without a token cost memory as tokens do, but nothing in the file.
constexpr int64_t kMostHoles = int64_t{1} << 16;
constexpr size_t kPadBytes = 16;  // "[PAD4194303]"

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::kFile, "tokenizer.json: " + what); }

std::string shown(std::string_view text) { return "'" + std::string(text.substr(0, 80)) + "'"; }

}  // namespace

// Fills a TokenizerJson in the order of its steps.
class TokenizerJsonBuilder {
 public:
  TokenizerJsonBuilder(const Metadata& model, TokenizerJson& out)
      : model_(model),
        out_(out),
        file_(read_tokenizer_file(model.string(kTokenizerJsonKey).value())),
        steps_(file_.rest) {}

  void run() {
    place_tokens();
    type_tokens();
    set_special_ids();
    out_.set_array("tokenizer.ggml.tokens", TENON_VALUE_STRING, out_.tokens_.data(), out_.tokens_.size());
    out_.set_array("tokenizer.ggml.token_type", TENON_VALUE_I32, out_.types_.data(), out_.types_.size());
    for (std::string_view merge : file_.merges) out_.merges_.push_back({merge.data(), merge.size()});
    out_.set_array("tokenizer.ggml.merges", TENON_VALUE_STRING, out_.merges_.data(), out_.merges_.size());
    out_.set_string("tokenizer.ggml.model", steps_.is_byte_level() ? "gpt2" : "characters");
    if (steps_.is_byte_level()) out_.set_string("tokenizer.ggml.pre", steps_.pretokenizer());
    out_.set_bool("tokenizer.ggml.add_bos_token", adds_bos());
    out_.set_bool("tokenizer.ggml.add_space_prefix", steps_.adds_space_prefix());
    out_.set_bool(kComposesKey, steps_.composes());
    out_.set_bool(kIgnoresMergesKey, steps_.ignores_merges());
    out_.arena_.swap(file_.arena);  // views stay: it is longer than what a string holds in itself
  }

 private:
  // Ids up to the highest; those without a token, and those that the model has rows for beyond, are padding.
  void place_tokens() {
    int64_t last = -1;
    const auto check = [&last](int64_t id, std::string_view text) {
      if (id < 0 || id >= kMostIds)
        fail("token " + shown(text) + " has id " + std::to_string(id) + ", expected 0 to " +
             std::to_string(kMostIds - 1));
      last = std::max(last, id);
    };
    for (const TokenizerFile::Token& token : file_.vocabulary) check(token.id, token.text);
    for (const AddedToken& token : steps_.added_tokens()) check(token.id, token.text);
    if (last < 0) fail("has no tokens");
    const int64_t n_tokens = int64_t(file_.vocabulary.size() + steps_.added_tokens().size());
    if (last - n_tokens >= kMostHoles)
      fail("its " + std::to_string(n_tokens) + " tokens have ids up to " + std::to_string(last) +
           ", expected at most " + std::to_string(kMostHoles) + " ids without a token");
    for (const char* key : {"text_config.vocab_size", "vocab_size"})
      if (const auto rows = model_.integer(key)) last = std::max(last, std::min(*rows, n_tokens + kMostHoles) - 1);
    out_.tokens_.assign(size_t(last + 1), tenon_str{nullptr, 0});
    for (const TokenizerFile::Token& token : file_.vocabulary) {
      tenon_str& place = out_.tokens_[size_t(token.id)];
      if (place.data)
        fail("tokens " + shown({place.data, size_t(place.size)}) + " and " + shown(token.text) + " have one id");
      place = {token.text.data(), token.text.size()};
    }
    for (const AddedToken& token : steps_.added_tokens()) {
      const std::string_view text = keep(file_, token.text);
      out_.tokens_[size_t(token.id)] = {text.data(), text.size()};
    }
    pad();
  }

  void pad() {
    const auto is_hole = [](const tenon_str& token) { return !token.data; };
    pads_.reserve(size_t(std::count_if(out_.tokens_.begin(), out_.tokens_.end(), is_hole)) * kPadBytes);
    out_.types_.assign(out_.tokens_.size(), int32_t(TokenType::kNormal));
    for (size_t id = 0; id < out_.tokens_.size(); ++id) {
      if (!is_hole(out_.tokens_[id])) continue;
      const size_t begin = pads_.size();
      pads_ += "[PAD" + std::to_string(id) + "]";
      out_.tokens_[id] = {pads_.data() + begin, pads_.size() - begin};
      out_.types_[id] = int32_t(TokenType::kUnused);
    }
    out_.pads_.swap(pads_);
  }

  void type_tokens() {
    if (!steps_.is_byte_level()) {
      for (const TokenizerFile::Token& token : file_.vocabulary)
        if (parse_byte_token(token.text)) out_.types_[size_t(token.id)] = int32_t(TokenType::kByte);
    }
    for (const AddedToken& token : steps_.added_tokens())
      out_.types_[size_t(token.id)] = int32_t(token.is_special ? TokenType::kControl : TokenType::kUserDefined);
    if (const auto id = find(steps_.unknown_token())) {
      if (out_.types_[size_t(*id)] == int32_t(TokenType::kControl))
        out_.types_[size_t(*id)] = int32_t(TokenType::kUnknown);
      out_.set_integer("tokenizer.ggml.unknown_token_id", *id);
    }
  }

  std::optional<int64_t> find(std::string_view text) const {
    if (text.empty()) return std::nullopt;
    for (const AddedToken& token : steps_.added_tokens())
      if (token.text == text) return token.id;
    for (const TokenizerFile::Token& token : file_.vocabulary)
      if (token.text == text) return token.id;
    return std::nullopt;
  }

  // A token that tokenizer_config.json names, as a text or as an object with its content.
  std::optional<int64_t> configured(const std::string& name) const {
    for (const std::string& key : {"tokenizer_config." + name, "tokenizer_config." + name + ".content"})
      if (const tenon_value* value = model_.find(key); value && value->type == TENON_VALUE_STRING)
        return find({value->string.data, size_t(value->string.size)});
    return std::nullopt;
  }

  // One id or several, wherever a configuration lists them.
  std::vector<int64_t> listed(std::initializer_list<const char*> keys) const {
    std::vector<int64_t> out;
    for (const char* key : keys) {
      const tenon_value* value = model_.find(key);
      if (!value) continue;
      const auto ids =
          value->type == TENON_VALUE_ARRAY ? *model_.integers(key) : std::vector<int64_t>{*model_.integer(key)};
      out.insert(out.end(), ids.begin(), ids.end());
    }
    return out;
  }

  void set_special_ids() {
    bos_ = find(steps_.first_token());
    if (!bos_) bos_ = configured("bos_token");
    if (bos_) out_.set_integer("tokenizer.ggml.bos_token_id", *bos_);
    out_.ends_ = listed({"generation_config.eos_token_id", "eos_token_id", "text_config.eos_token_id"});
    auto eos = configured("eos_token");
    if (!eos && !out_.ends_.empty()) eos = out_.ends_[0];
    if (eos) out_.set_integer("tokenizer.ggml.eos_token_id", *eos);
    if (const auto pad = configured("pad_token")) out_.set_integer("tokenizer.ggml.padding_token_id", *pad);
    out_.set_array(kEndIdsKey, TENON_VALUE_I64, out_.ends_.data(), out_.ends_.size());
    out_.suppressed_ = listed({"generation_config.suppress_tokens"});
    out_.set_array("tokenizer.ggml.suppress_tokens", TENON_VALUE_I64, out_.suppressed_.data(), out_.suppressed_.size());
  }

  bool adds_bos() const {
    if (!steps_.first_token().empty()) return true;
    return !steps_.has_template() && bos_ && model_.boolean("tokenizer_config.add_bos_token").value_or(false);
  }

  const Metadata& model_;
  TokenizerJson& out_;
  TokenizerFile file_;
  TokenizerSteps steps_;
  std::string pads_;
  std::optional<int64_t> bos_;
};

TokenizerJson::TokenizerJson(const Metadata& model) { TokenizerJsonBuilder(model, *this).run(); }

const tenon_value* TokenizerJson::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void TokenizerJson::set(std::string_view key, tenon_value value) {
  value.struct_size = sizeof value;
  const auto [place, fresh] = values_.insert_or_assign(std::string(key), value);
  if (fresh) order_.push_back(place->first);
}

void TokenizerJson::set_bool(std::string_view key, bool value) {
  tenon_value out = {};
  out.type = TENON_VALUE_BOOL, out.integer = value;
  set(key, out);
}

void TokenizerJson::set_integer(std::string_view key, int64_t value) {
  tenon_value out = {};
  out.type = TENON_VALUE_I64, out.integer = value;
  set(key, out);
}

void TokenizerJson::set_string(std::string_view key, std::string_view value) {
  const std::string& kept = texts_.emplace_back(value);
  tenon_value out = {};
  out.type = TENON_VALUE_STRING, out.string = {kept.data(), kept.size()};
  set(key, out);
}

void TokenizerJson::set_array(std::string_view key, uint32_t element, const void* data, size_t count) {
  tenon_value out = {};
  out.type = TENON_VALUE_ARRAY, out.element = element, out.data = data, out.count = count;
  set(key, out);
}

}  // namespace tenon::text
