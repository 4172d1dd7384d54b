// Byte-level BPE: the vocabulary spells bytes with stand-in characters, text is split by a pre-tokenizer.
#include <array>
#include <tenon/error.hpp>

#include "source/metadata.hpp"
#include "text/byte_map.hpp"
#include "text/kinds.hpp"
#include "text/merge_table.hpp"
#include "text/pretokenizer.hpp"
#include "text/tokenizer_base.hpp"
#include "text/tokenizer_json.hpp"

namespace tenon::text {
namespace {

constexpr std::string_view kPreKey = "tokenizer.ggml.pre";

class BpeTokenizer final : public TokenizerBase {
 public:
  BpeTokenizer(const Metadata& metadata, const Pretokenizer& pretokenizer, bool is_guess)
      : TokenizerBase(metadata, {},
                      {.kind = "bpe/" + std::string(pretokenizer.name), .adds_bos = pretokenizer.adds_bos}),
        merges_(metadata, vocabulary_),
        pretokenizer_(pretokenizer) {
    pretokenizer_.ignores_merges = metadata.boolean(kIgnoresMergesKey).value_or(pretokenizer.ignores_merges);
    if (is_guess) {
      vocabulary_.warn(std::string(kPreKey) +
                       ": missing; text is split like gpt-2, which makes output worse if the model "
                       "was trained otherwise: convert it again with a current converter");
    }
    for (int byte = 0; byte < 256; ++byte) {
      std::string spelled;
      append_utf8(spelled, stand_in_of(static_cast<uint8_t>(byte)));
      byte_pieces_[byte] = vocabulary_.index().find(spelled);
    }
  }

 private:
  void encode_fragment(std::string_view text, bool, MergeScratch& scratch, std::vector<int32_t>& ids) const override {
    std::vector<std::string_view> pieces;
    pretokenizer_.split(text, pieces);
    for (std::string_view piece : pieces) encode_piece(piece, scratch, ids);
  }

  void encode_piece(std::string_view piece, MergeScratch& scratch, std::vector<int32_t>& ids) const {
    if (pretokenizer_.ignores_merges && piece.size() <= vocabulary_.longest()) {
      const int32_t whole = vocabulary_.find_plain(to_stand_ins(piece));
      if (whole >= 0) {
        ids.push_back(whole);
        return;
      }
    }
    scratch.symbols.clear();
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto byte = static_cast<uint8_t>(piece[i]);
      scratch.symbols.push_back({.begin = static_cast<uint32_t>(i), .size = 1, .id = byte_pieces_[byte]});
    }
    merge(scratch, [this](const Symbol& left, const Symbol& right) {
      const MergeTable::Rule rule = merges_.find(left.id, right.id);
      return Join{rule.rank, rule.joined};
    });
    emit(piece, scratch, ids,
         [this](uint8_t byte) { return vocabulary_.is_plain(byte_pieces_[byte]) ? byte_pieces_[byte] : -1; });
  }

  void append_normal(std::string_view token, std::string& out) const override { out += from_stand_ins(token); }

  MergeTable merges_;
  Pretokenizer pretokenizer_;
  std::array<int32_t, 256> byte_pieces_{};
};

}  // namespace

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const Metadata& metadata) {
  const auto name = metadata.string(kPreKey);
  const Pretokenizer* pretokenizer = find_pretokenizer(name.value_or("default"));
  if (pretokenizer == nullptr) {
    throw Error(ErrorKind::kFile, std::string(kPreKey) + ": '" + std::string(name->substr(0, 80)) +
                                      "' is not known; expected one of " + std::string(known_pretokenizers()));
  }
  return std::make_shared<BpeTokenizer>(metadata, *pretokenizer, !name.has_value());
}

}  // namespace tenon::text
