// vocabulary.hpp: what `tokenizer.ggml.*` says about tokens, copied and checked.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <tenon/tokenizer.hpp>
#include <vector>

#include "text/token_index.hpp"

namespace tenon::text {

struct VocabularyRules {
  bool wants_scores = false;       // `scores` must be there, one for each token
  bool wants_byte_tokens = false;  // `<0xXX>` are byte tokens even where no types are given
  bool gemma4_markers = false;     // tool and channel markers are text that the caller parses; `</s>` ends nothing
};

// Immutable. Throws Error(kFile) naming the key that is missing or malformed.
class Vocabulary {
 public:
  Vocabulary(const Metadata& metadata, const VocabularyRules& rules);

  int32_t size() const { return size_; }
  bool has(int32_t id) const { return id >= 0 && id < size_; }
  TokenType type(int32_t id) const { return types_[id]; }
  float score(int32_t id) const { return scores_[id]; }
  std::string_view text(int32_t id) const { return index_.text(id); }

  // Any token by its spelling; -1 when there is none.
  int32_t find(std::string_view text) const;
  // The token that ordinary text may become: neither a control, unknown nor byte token; -1 when there is none.
  int32_t find_plain(std::string_view text) const;
  bool is_plain(int32_t id) const {
    return has(id) && (types_[id] == TokenType::kNormal || types_[id] == TokenType::kUserDefined ||
                       types_[id] == TokenType::kUnused);
  }
  uint32_t longest() const { return index_.longest(); }
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }  // -1: none

  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  std::optional<int32_t> unknown() const { return unknown_; }
  bool ends_generation(int32_t id) const { return has(id) && ends_[id]; }
  const std::vector<int32_t>& suppressed() const { return suppressed_; }
  const std::string& warning() const { return warning_; }
  void warn(const std::string& message);

  // Merge rules may name pieces that are no token: they get numbers >= size() in the same index.
  int32_t intern(std::string_view text, uint64_t hash);
  const TokenIndex& index() const { return index_; }

 private:
  void read_tokens(const Metadata& metadata);
  void read_types(const Metadata& metadata, const VocabularyRules& rules);
  void read_scores(const Metadata& metadata);
  void read_special_ids(const Metadata& metadata, const VocabularyRules& rules);
  void read_suppressed(const Metadata& metadata);
  std::optional<int32_t> special_id(const Metadata& metadata, std::string_view key) const;

  int32_t size_ = 0;
  TokenIndex index_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::vector<bool> ends_;
  std::vector<int32_t> suppressed_;
  std::array<int32_t, 256> byte_tokens_{};
  std::optional<int32_t> bos_, eos_, unknown_;
  std::string warning_;
};

// The byte that a token spelled `<0xXX>` stands for.
std::optional<uint8_t> parse_byte_token(std::string_view text);

// Of gemma4: control tokens that are text to the caller.
std::span<const std::string_view> gemma4_markers();

}  // namespace tenon::text
