// Gemma 4: ranked merges over characters, spaces written as U+2581, text split at runs of newlines only.
#include <algorithm>

#include "source/metadata.hpp"
#include "text/kinds.hpp"
#include "text/merge_table.hpp"
#include "text/pair_set.hpp"
#include "text/tokenizer_base.hpp"

namespace tenon::text {
namespace {

class Gemma4Tokenizer final : public TokenizerBase {
 public:
  explicit Gemma4Tokenizer(const Metadata& metadata)
      : TokenizerBase(metadata, {.wants_byte_tokens = true, .gemma4_markers = true},
                      {.kind = "gemma4", .adds_bos = true, .forces_bos = true}),
        merges_(metadata, vocabulary_),
        pairs_(vocabulary_.index()) {}

 private:
  void encode_fragment(std::string_view text, bool, MergeScratch& scratch, std::vector<int32_t>& ids) const override {
    std::string escaped;
    append_with_space_marks(text, escaped);
    const std::string_view whole = escaped;
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
};

}  // namespace

std::shared_ptr<const Tokenizer> make_gemma4_tokenizer(const Metadata& metadata) {
  return std::make_shared<Gemma4Tokenizer>(metadata);
}

}  // namespace tenon::text
