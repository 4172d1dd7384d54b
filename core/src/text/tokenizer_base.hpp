// tokenizer_base.hpp: what all vocabulary kinds share: special tokens, ids, and putting pieces together.
#pragma once

#include <string>
#include <tenon/tokenizer.hpp>
#include <vector>

#include "text/merge.hpp"
#include "text/special_trie.hpp"
#include "text/vocabulary.hpp"

namespace tenon::text {

// What a kind of vocabulary decides where the file does not.
struct KindRules {
  std::string kind;
  bool adds_bos = false;           // default of `add_bos_token`
  bool forces_bos = false;         // BOS whatever the file says
  bool adds_space_prefix = false;  // default of `add_space_prefix`
  bool may_add_space_prefix = false;
};

class TokenizerBase : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const final;
  std::string piece(int32_t id, bool show_control) const final;
  std::string decode(std::span<const int32_t> ids, bool show_control) const final;

  int32_t size() const final { return vocabulary_.size(); }
  TokenType type(int32_t id) const final { return vocabulary_.has(id) ? vocabulary_.type(id) : TokenType::kUnused; }
  std::string_view token(int32_t id) const final {
    return vocabulary_.has(id) ? vocabulary_.text(id) : std::string_view();
  }
  std::optional<int32_t> find(std::string_view token) const final;
  std::optional<int32_t> bos() const final { return vocabulary_.bos(); }
  std::optional<int32_t> eos() const final { return vocabulary_.eos(); }
  bool adds_bos() const final { return adds_bos_; }
  bool drops_leading_space() const final { return adds_space_prefix_; }
  bool ends_generation(int32_t id) const final { return vocabulary_.ends_generation(id); }
  std::span<const int32_t> suppressed() const final { return vocabulary_.suppressed(); }
  std::string_view kind() const final { return kind_; }
  std::string_view warning() const final { return vocabulary_.warning(); }

 protected:
  TokenizerBase(const Metadata& metadata, const VocabularyRules& vocabulary_rules, const KindRules& rules);

  // Text between special tokens, at most kMaxFragmentBytes; appends ids.
  virtual void encode_fragment(std::string_view text, bool is_first, MergeScratch& scratch,
                               std::vector<int32_t>& ids) const = 0;
  // Bytes of a token of type normal.
  virtual void append_normal(std::string_view token, std::string& out) const = 0;

  // The ids of what merging left. A symbol that is no token becomes its bytes by `byte_token(byte)`; a run of bytes for
  // which that is -1 becomes one unknown token, or nothing in a vocabulary without one.
  template <class ByteToken>
  void emit(std::string_view piece, const MergeScratch& scratch, std::vector<int32_t>& ids,
            const ByteToken& byte_token) const {
    for (const Symbol& symbol : scratch.symbols) {
      if (vocabulary_.is_plain(symbol.id)) {
        ids.push_back(symbol.id);
        continue;
      }
      bool in_unknown = false;
      for (char byte : piece.substr(symbol.begin, symbol.size)) {
        const int32_t id = byte_token(static_cast<uint8_t>(byte));
        if (id >= 0) {
          ids.push_back(id);
        } else if (!in_unknown && vocabulary_.unknown()) {
          ids.push_back(*vocabulary_.unknown());
        }
        in_unknown = id < 0;
      }
    }
  }

  // Characters of the piece as symbols, with the numbers of the tokens that they spell.
  void load_characters(std::string_view piece, MergeScratch& scratch) const;

  Vocabulary vocabulary_;
  bool adds_space_prefix_ = false;
  bool composes_ = false;  // text is brought into NFC first

 private:
  SpecialTrie specials_;
  std::string kind_;
  bool adds_bos_ = false;
};

// Longer text is cut, so that positions fit 32 bits even after spaces became three bytes.
inline constexpr size_t kMaxFragmentBytes = size_t{1} << 29;

// U+2581, which stands for a space in SentencePiece vocabularies.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
void append_with_space_marks(std::string_view text, std::string& out);     // ' ' -> U+2581
void append_without_space_marks(std::string_view text, std::string& out);  // U+2581 -> ' '

}  // namespace tenon::text
