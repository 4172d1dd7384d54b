#include "text/merge_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <tenon/error.hpp>

#include "source/metadata.hpp"

namespace tenon::text {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr size_t kMostRules = size_t{1} << 22;  // far above any vocabulary

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kFile, std::string(kMergesKey) + ": " + what);
}

struct Work {
  std::string_view left, right;
  uint64_t left_hash = 0, right_hash = 0;
  uint64_t key = 0;
  int32_t joined = -1;
};

void parse(const tenon_str& spelled, size_t number, Work& work) {
  const std::string_view rule(spelled.data, static_cast<size_t>(spelled.size));
  const size_t space = rule.find(' ', 1);  // a piece may itself begin with a space
  if (space == std::string_view::npos || space + 1 == rule.size()) {
    fail("rule " + std::to_string(number) + " is '" + std::string(rule.substr(0, 80)) + "', expected 'left right'");
  }
  work.left = rule.substr(0, space);
  work.right = rule.substr(space + 1);
  work.left_hash = hash_text(work.left);
  work.right_hash = hash_text(work.right);
}

// Rules come in the order of the tokens that they make, or nearly: the token of the next rule is mostly this one's or
// one of the next few, which costs no look-up.
class NextToken {
 public:
  explicit NextToken(const TokenIndex& index) : index_(index), enabled_(index.all_found()) {}

  // The number of left + right or, when it is not close to the last one, -1.
  int32_t guess(std::string_view left, std::string_view right) const {
    constexpr int32_t kReach = 8;
    const int32_t end = enabled_ ? std::min(last_ + kReach, index_.size()) : 0;
    for (int32_t i = last_; i < end; ++i) {
      const std::string_view text = index_.text(i);
      if (text.size() == left.size() + right.size() && text.starts_with(left) && text.ends_with(right)) return i;
    }
    return -1;
  }
  void set_last(int32_t number) { last_ = number; }

 private:
  const TokenIndex& index_;
  bool enabled_;
  int32_t last_ = 0;
};

}  // namespace

void MergeTable::insert(uint64_t key, uint32_t rank, int32_t joined) {
  uint64_t i = start_of(key);
  for (; slots_[i].key != kEmpty; i = (i + 1) & mask_) {
    if (slots_[i].key == key) return;  // the earlier rule wins
  }
  slots_[i] = {key, rank, joined};
}

// Half a million rules mean a million look-ups at random places. They are done in blocks of three steps, so that the
// cache misses of a block overlap.
MergeTable::MergeTable(const Metadata& metadata, Vocabulary& vocabulary) {
  const auto merges = metadata.strings(kMergesKey);
  if (!merges) fail("missing, but this vocabulary merges by rank");
  if (merges->size() > kMostRules)
    fail(std::to_string(merges->size()) + " rules, expected at most " + std::to_string(kMostRules));
  const uint64_t n_slots = std::bit_ceil(std::max<uint64_t>(16, merges->size() + merges->size() / 2));
  slots_.resize(n_slots);
  mask_ = n_slots - 1;
  shift_ = 64 - std::countr_zero(n_slots);

  constexpr size_t kBlock = 32;
  std::array<Work, kBlock> block;
  std::string joined;
  const TokenIndex& index = vocabulary.index();
  NextToken next(index);
  for (size_t begin = 0; begin < merges->size(); begin += kBlock) {
    const size_t n = std::min(kBlock, merges->size() - begin);
    for (size_t i = 0; i < n; ++i) {
      parse((*merges)[begin + i], begin + i, block[i]);
      index.prefetch(block[i].left_hash);
      index.prefetch(block[i].right_hash);
    }
    for (size_t i = 0; i < n; ++i) {
      Work& work = block[i];
      const int32_t left = vocabulary.intern(work.left, work.left_hash);
      const int32_t right = vocabulary.intern(work.right, work.right_hash);
      work.key = key_of(left, right);
      __builtin_prefetch(&slots_[start_of(work.key)]);
      work.joined = next.guess(work.left, work.right);
      if (work.joined < 0) {
        joined.assign(work.left).append(work.right);
        work.joined = vocabulary.intern(joined, hash_text(joined));
      }
      next.set_last(work.joined);
    }
    for (size_t i = 0; i < n; ++i) insert(block[i].key, static_cast<uint32_t>(begin + i), block[i].joined);
  }
}

}  // namespace tenon::text
