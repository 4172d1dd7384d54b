#include "text/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <tenon/error.hpp>

#include "source/metadata.hpp"
#include "text/tokenizer_json.hpp"

namespace tenon::text {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

// Far above any vocabulary. Tables take some hundred bytes for a token, and encoding looks at texts up to the longest.
constexpr size_t kMostTokens = size_t{1} << 22;
constexpr uint64_t kLongestToken = 65535;

// Texts that end a turn or a document in released models; they count only where the file types them as control tokens.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<｜end▁of▁sentence｜>"};

constexpr std::string_view kEndKeys[] = {"tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
                                         "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
                                         "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};

constexpr std::string_view kGemma4Markers[] = {"<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                               "<|\"|>",       "<|channel>",   "<channel|>"};

[[noreturn]] void fail(std::string_view key, const std::string& what) {
  throw Error(ErrorKind::kFile, std::string(key) + ": " + what);
}

std::string_view to_view(const tenon_str& text) { return {text.data, static_cast<size_t>(text.size)}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::span<const std::string_view> gemma4_markers() { return kGemma4Markers; }

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Vocabulary::Vocabulary(const Metadata& metadata, const VocabularyRules& rules) {
  read_tokens(metadata);
  read_types(metadata, rules);
  if (rules.wants_scores) read_scores(metadata);
  read_special_ids(metadata, rules);
  read_suppressed(metadata);
}

void Vocabulary::read_tokens(const Metadata& metadata) {
  const auto tokens = metadata.strings(kTokensKey);
  if (!tokens)
    fail(kTokensKey, "missing, but a tokenizer needs its tokens; convert the model again with its vocabulary");
  if (tokens->empty()) fail(kTokensKey, "the array is empty");
  if (tokens->size() > kMostTokens) {
    fail(kTokensKey,
         std::to_string(tokens->size()) + " tokens, expected at most " + std::to_string(kMostTokens));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < tokens->size(); ++i) {
    const uint64_t size = (*tokens)[i].size;
    if (size > kLongestToken) {
      fail(kTokensKey, "token " + std::to_string(i) + " has " + std::to_string(size) + " bytes, expected at most " +
                           std::to_string(kLongestToken));
    }
    bytes += size;
  }
  index_.reserve(bytes, tokens->size());
  constexpr size_t kAhead = 16;  // places are fetched that many tokens before they are written
  std::array<uint64_t, kAhead> hashes{};
  size_t n_hidden = 0;
  for (size_t i = 0; i < tokens->size() + kAhead; ++i) {
    uint64_t& hash = hashes[i % kAhead];
    if (i >= kAhead) n_hidden += !index_.add(to_view((*tokens)[i - kAhead]), hash);
    if (i >= tokens->size()) continue;
    hash = hash_text(to_view((*tokens)[i]));
    index_.prefetch(hash);
  }
  size_ = index_.size();
  if (n_hidden != 0) {
    warn(std::string(kTokensKey) + ": " + std::to_string(n_hidden) +
         " tokens are empty or spelled like an earlier one; text becomes the first of them");
  }
}

void Vocabulary::read_types(const Metadata& metadata, const VocabularyRules& rules) {
  const auto types = metadata.integers(kTypesKey);
  types_.assign(size_, TokenType::kNormal);
  if (types && types->size() < types_.size()) {
    fail(kTypesKey, std::to_string(types->size()) + " entries for " + std::to_string(size_) + " tokens");
  }
  byte_tokens_.fill(-1);
  for (int32_t id = 0; id < size_; ++id) {
    if (types) {
      const int64_t type = (*types)[id];
      if (type < 0 || type > 6) {
        fail(kTypesKey, "entry " + std::to_string(id) + " is " + std::to_string(type) + ", expected 1 to 6");
      }
      if (type != 0) types_[id] = static_cast<TokenType>(type);  // 0 is "undefined": ordinary text
    }
    if (!rules.wants_byte_tokens) continue;
    const auto byte = (!types || types_[id] == TokenType::kByte) ? parse_byte_token(text(id)) : std::nullopt;
    if (byte) {
      types_[id] = TokenType::kByte;
      if (byte_tokens_[*byte] < 0) byte_tokens_[*byte] = id;
    } else if (types_[id] == TokenType::kByte) {
      fail(kTypesKey, "token " + std::to_string(id) + " is a byte but is not spelled <0xXX>");
    }
  }
  if (rules.gemma4_markers) {
    for (std::string_view marker : kGemma4Markers) {
      const int32_t id = find(marker);
      if (id >= 0 && types_[id] == TokenType::kControl) types_[id] = TokenType::kUserDefined;
    }
  }
}

void Vocabulary::read_scores(const Metadata& metadata) {
  auto scores = metadata.reals(kScoresKey);
  if (!scores) fail(kScoresKey, "missing, but this vocabulary merges by score");
  if (scores->size() < types_.size()) {
    fail(kScoresKey, std::to_string(scores->size()) + " entries for " + std::to_string(size_) + " tokens");
  }
  scores->resize(types_.size());
  for (int32_t id = 0; id < size_; ++id) {
    if (std::isnan((*scores)[id])) fail(kScoresKey, "entry " + std::to_string(id) + " is not a number");
  }
  scores_ = std::move(*scores);
}

// An id that is no token of this vocabulary is taken for absent, as converters write such values for "none".
std::optional<int32_t> Vocabulary::special_id(const Metadata& metadata, std::string_view key) const {
  const auto id = metadata.integer(key);
  if (!id || *id < 0 || *id >= size_) return std::nullopt;
  return static_cast<int32_t>(*id);
}

void Vocabulary::read_special_ids(const Metadata& metadata, const VocabularyRules& rules) {
  bos_ = special_id(metadata, "tokenizer.ggml.bos_token_id");
  eos_ = special_id(metadata, "tokenizer.ggml.eos_token_id");
  unknown_ = special_id(metadata, "tokenizer.ggml.unknown_token_id");
  ends_.assign(size_, false);
  for (std::string_view text : kEndTexts) {
    const int32_t id = find(text);
    if (id < 0 || type(id) != TokenType::kControl) continue;
    if (rules.gemma4_markers && text == "</s>") continue;
    // Vocabularies with call and return markers use `<|end|>` inside a turn.
    if (text == "<|end|>" && (find("<|return|>") >= 0 || find("<|call|>") >= 0)) continue;
    ends_[id] = true;
  }
  if (rules.gemma4_markers) {  // the model yields to the tool here, though the marker is text
    const int32_t id = find("<|tool_response>");
    if (id >= 0 && type(id) == TokenType::kUserDefined) ends_[id] = true;
  }
  for (std::string_view key : kEndKeys) {
    if (const auto id = special_id(metadata, key)) ends_[*id] = true;
  }
  for (const int64_t id : metadata.integers(kEndIdsKey).value_or(std::vector<int64_t>()))
    if (id >= 0 && id < size_) ends_[size_t(id)] = true;
}

void Vocabulary::read_suppressed(const Metadata& metadata) {
  if (const auto ids = metadata.integers("tokenizer.ggml.suppress_tokens")) {
    for (int64_t id : *ids) {
      if (id >= 0 && id < size_) suppressed_.push_back(static_cast<int32_t>(id));
    }
  }
  for (int32_t id = 0; id < size_; ++id) {
    if (types_[id] == TokenType::kUnused) suppressed_.push_back(id);
  }
  std::sort(suppressed_.begin(), suppressed_.end());
  suppressed_.erase(std::unique(suppressed_.begin(), suppressed_.end()), suppressed_.end());
}

int32_t Vocabulary::find(std::string_view text) const {
  const int32_t id = index_.find(text);
  return id < size_ ? id : -1;
}

int32_t Vocabulary::find_plain(std::string_view text) const {
  if (text.size() > index_.longest()) return -1;
  const int32_t id = index_.find(text);
  return is_plain(id) ? id : -1;
}

int32_t Vocabulary::intern(std::string_view text, uint64_t hash) {
  const int32_t known = index_.find(text, hash);
  if (known >= 0) return known;
  index_.add(text);
  return index_.size() - 1;
}

void Vocabulary::warn(const std::string& message) {
  if (!warning_.empty()) warning_ += "; ";
  warning_ += message;
}

}  // namespace tenon::text
