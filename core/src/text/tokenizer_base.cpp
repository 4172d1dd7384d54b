#include "text/tokenizer_base.hpp"

#include <algorithm>

#include "source/metadata.hpp"
#include "text/code_points.hpp"
#include "text/tokenizer_json.hpp"

namespace tenon::text {

TokenizerBase::TokenizerBase(const Metadata& metadata, const VocabularyRules& vocabulary_rules, const KindRules& rules)
    : vocabulary_(metadata, vocabulary_rules), specials_(vocabulary_), kind_(rules.kind) {
  const bool says_bos = metadata.boolean("tokenizer.ggml.add_bos_token").value_or(rules.adds_bos);
  adds_bos_ = vocabulary_.bos().has_value() && (rules.forces_bos || says_bos);
  adds_space_prefix_ = rules.may_add_space_prefix &&
                       metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(rules.adds_space_prefix);
  composes_ = metadata.boolean(kComposesKey).value_or(false);
}

std::vector<int32_t> TokenizerBase::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  if (options.add_bos && adds_bos_) ids.push_back(*vocabulary_.bos());
  MergeScratch scratch;
  for (size_t pos = 0; pos < text.size();) {
    const SpecialTrie::Match special = specials_.find(text, pos, options.parse_special);
    std::string composed;
    std::string_view plain = text.substr(pos, special.begin - pos);
    if (composes_ && compose(plain, composed)) plain = composed;
    bool is_first = true;  // of what follows the beginning or a special token
    while (!plain.empty()) {
      encode_fragment(plain.substr(0, kMaxFragmentBytes), is_first, scratch, ids);
      is_first = false;
      plain.remove_prefix(std::min(plain.size(), kMaxFragmentBytes));
    }
    if (special.id >= 0) ids.push_back(special.id);
    pos = special.end;
  }
  return ids;
}

std::string TokenizerBase::piece(int32_t id, bool show_control) const {
  if (!vocabulary_.has(id)) return {};
  const std::string_view text = vocabulary_.text(id);
  switch (vocabulary_.type(id)) {
    case TokenType::kNormal: {
      std::string out;
      append_normal(text, out);
      return out;
    }
    case TokenType::kUserDefined:
      return std::string(text);
    case TokenType::kByte:
      if (const auto byte = parse_byte_token(text)) return std::string(1, static_cast<char>(*byte));
      return std::string(text);
    case TokenType::kControl:
    case TokenType::kUnknown:
      return show_control ? std::string(text) : std::string();
    case TokenType::kUnused:
      break;
  }
  return {};
}

std::string TokenizerBase::decode(std::span<const int32_t> ids, bool show_control) const {
  std::string out;
  bool may_drop = adds_space_prefix_;
  for (int32_t id : ids) {
    const std::string text = piece(id, show_control);
    if (text.empty()) continue;
    const bool is_control = vocabulary_.type(id) == TokenType::kControl;
    out.append(text, may_drop && !is_control && text[0] == ' ' ? 1 : 0);
    if (!is_control) may_drop = false;
  }
  return out;
}

std::optional<int32_t> TokenizerBase::find(std::string_view token) const {
  const int32_t id = vocabulary_.find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

void TokenizerBase::load_characters(std::string_view piece, MergeScratch& scratch) const {
  scratch.symbols.clear();
  for (size_t pos = 0; pos < piece.size();) {
    const uint32_t size = decode_at(piece, pos).size;
    scratch.symbols.push_back(
        {.begin = static_cast<uint32_t>(pos), .size = size, .id = vocabulary_.index().find(piece.substr(pos, size))});
    pos += size;
  }
}

void append_with_space_marks(std::string_view text, std::string& out) {
  out.reserve(out.size() + text.size() + text.size() / 2);
  for (char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
}

void append_without_space_marks(std::string_view text, std::string& out) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, pos), text.size());
    out += text.substr(pos, mark - pos);
    if (mark < text.size()) out += ' ';
    pos = mark + (mark < text.size() ? kSpaceMark.size() : 0);
  }
}

}  // namespace tenon::text
