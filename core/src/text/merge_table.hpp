// merge_table.hpp: the ranked merge rules of a BPE vocabulary.
#pragma once

#include <cstdint>

#include "text/large_array.hpp"
#include "text/vocabulary.hpp"

namespace tenon::text {

// Pair of piece numbers -> rank and number of the joined piece. Immutable after construction.
class MergeTable {
 public:
  // From `tokenizer.ggml.merges`. Pieces that are no token are interned into the vocabulary's index. Throws
  // Error(kFile) when the key is missing or a rule is not "left right".
  MergeTable(const Metadata& metadata, Vocabulary& vocabulary);

  struct Rule {
    uint32_t rank = 0;
    int32_t joined = -1;  // -1: there is no such rule
  };
  Rule find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (uint64_t i = start_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return {slots_[i].rank, slots_[i].joined};
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = 0;
    int32_t joined = -1;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  uint64_t start_of(uint64_t key) const {
    return (key * 0x9E3779B97F4A7C15u ^ (key >> 29)) * 0xD1B54A32D192ED03u >> shift_;
  }
  void insert(uint64_t key, uint32_t rank, int32_t joined);

  LargeArray<Slot> slots_;
  uint64_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace tenon::text
