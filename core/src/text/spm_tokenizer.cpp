// SentencePiece BPE: characters are joined into the token with the highest score; what is left becomes bytes.
#include <bit>

#include "source/metadata.hpp"
#include "text/kinds.hpp"
#include "text/pair_set.hpp"
#include "text/tokenizer_base.hpp"

namespace tenon::text {
namespace {

// Numbers in the opposite order of the floats: the highest score is joined first.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 counts as 0
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

class SpmTokenizer final : public TokenizerBase {
 public:
  explicit SpmTokenizer(const Metadata& metadata)
      : TokenizerBase(metadata, {.wants_scores = true, .wants_byte_tokens = true},
                      {.kind = "spm", .adds_bos = true, .adds_space_prefix = true, .may_add_space_prefix = true}),
        pairs_(vocabulary_.index()) {}

 private:
  void encode_fragment(std::string_view text, bool is_first, MergeScratch& scratch,
                       std::vector<int32_t>& ids) const override {
    std::string escaped;
    if (is_first && adds_space_prefix_) escaped = kSpaceMark;
    append_with_space_marks(text, escaped);
    const std::string_view whole = escaped;
    for (size_t begin = 0; begin < whole.size();) {
      const size_t end = pairs_.next_border(whole, begin);
      encode_piece(whole.substr(begin, end - begin), scratch, ids);
      begin = end;
    }
  }

  void encode_piece(std::string_view piece, MergeScratch& scratch, std::vector<int32_t>& ids) const {
    load_characters(piece, scratch);
    merge(scratch, [this, piece](const Symbol& left, const Symbol& right) -> Join {
      const int32_t id = vocabulary_.find_plain(piece.substr(left.begin, left.size + right.size));
      if (id < 0) return {};
      return {order_of(vocabulary_.score(id)), id};
    });
    emit(piece, scratch, ids, [this](uint8_t byte) { return vocabulary_.byte_token(byte); });
  }

  void append_normal(std::string_view token, std::string& out) const override {
    append_without_space_marks(token, out);
  }

  PairSet pairs_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_spm_tokenizer(const Metadata& metadata) {
  return std::make_shared<SpmTokenizer>(metadata);
}

}  // namespace tenon::text
