// Ranked merges over characters, spaces written as U+2581: Gemma 4, whose GGUF files split text at runs of newlines, and
// the vocabularies of a tokenizer.json, which split it nowhere.
#include <algorithm>

#include "source/metadata.hpp"
#include "text/kinds.hpp"
#include "text/merge_table.hpp"
#include "text/pair_set.hpp"
#include "text/tokenizer_base.hpp"

namespace tenon::text {
namespace {

class CharacterTokenizer final : public TokenizerBase {
 public:
  CharacterTokenizer(const Metadata& metadata, const KindRules& rules, bool splits_newlines)
      : TokenizerBase(metadata, {.wants_byte_tokens = true, .gemma4_markers = true}, rules),
        merges_(metadata, vocabulary_),
        pairs_(vocabulary_.index()),
        splits_newlines_(splits_newlines) {}

 private:
  void encode_fragment(std::string_view text, bool is_first, MergeScratch& scratch,
                       std::vector<int32_t>& ids) const override {
    std::string escaped;
    if (is_first && adds_space_prefix_) escaped = kSpaceMark;
    append_with_space_marks(text, escaped);
    const std::string_view whole = escaped;
    if (!splits_newlines_) return encode_run(whole, scratch, ids);
    for (size_t begin = 0; begin < whole.size();) {
      const bool newlines = whole[begin] == '\n';
      const size_t end =
          std::min(newlines ? whole.find_first_not_of('\n', begin) : whole.find('\n', begin), whole.size());
      const std::string_view run = whole.substr(begin, end - begin);
      const int32_t token = newlines ? vocabulary_.find_plain(run) : -1;
      if (token >= 0) {
        ids.push_back(token);
      } else {
        encode_run(run, scratch, ids);
      }
      begin = end;
    }
  }

  void encode_run(std::string_view run, MergeScratch& scratch, std::vector<int32_t>& ids) const {
    for (size_t begin = 0; begin < run.size();) {
      const size_t end = pairs_.next_border(run, begin);
      const std::string_view piece = run.substr(begin, end - begin);
      load_characters(piece, scratch);
      merge(scratch, [this](const Symbol& left, const Symbol& right) {
        const MergeTable::Rule rule = merges_.find(left.id, right.id);
        return Join{rule.rank, rule.joined};
      });
      emit(piece, scratch, ids, [this](uint8_t byte) { return vocabulary_.byte_token(byte); });
      begin = end;
    }
  }

  void append_normal(std::string_view token, std::string& out) const override {
    append_without_space_marks(token, out);
  }

  MergeTable merges_;
  PairSet pairs_;
  bool splits_newlines_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_gemma4_tokenizer(const Metadata& metadata) {
  return std::make_shared<CharacterTokenizer>(
      metadata, KindRules{.kind = "gemma4", .adds_bos = true, .forces_bos = true}, true);
}

std::shared_ptr<const Tokenizer> make_character_tokenizer(const Metadata& metadata) {
  return std::make_shared<CharacterTokenizer>(metadata, KindRules{.kind = "characters", .may_add_space_prefix = true},
                                              false);
}

}  // namespace tenon::text
