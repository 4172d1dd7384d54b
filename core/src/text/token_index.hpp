// token_index.hpp: texts by number and numbers by text, for hundreds of thousands of tokens at start-up.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "text/large_array.hpp"

namespace tenon::text {

inline uint64_t mix_words(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The first n <= 8 bytes as a number that no other n bytes give; without the call that memcpy of a variable size is.
inline uint64_t load_head(const char* p, size_t n) {
  if (n == 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
  }
  if (n >= 4) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    return low | static_cast<uint64_t>(high) << 32;
  }
  if (n == 0) return 0;
  const auto byte = [p](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(p[i])); };
  return byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
}

inline uint64_t hash_text(std::string_view text) {
  constexpr uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD1B54A32D192ED03;
  const char* p = text.data();
  size_t left = text.size();
  uint64_t state = kOdd1 ^ left;
  for (; left > 8; p += 8, left -= 8) {
    state = mix_words(state ^ load_head(p, 8), kOdd2);
  }
  return mix_words(state ^ load_head(p, left), kOdd2) ^ state;
}

// An arena of texts with an open-addressing hash over it. Numbers count up from 0. Of equal texts the hash knows the
// first; empty texts are stored and never found. Filled by one thread, then read by any.
class TokenIndex {
 public:
  // `bytes` and `count` of what will be added.
  void reserve(uint64_t bytes, uint64_t count);

  // Stores the text under the next number; true when the hash now finds it there.
  bool add(std::string_view text) { return add(text, hash_text(text)); }
  bool add(std::string_view text, uint64_t hash);

  int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }
  uint32_t longest() const { return longest_; }                              // bytes
  bool all_found() const { return used_ == static_cast<uint64_t>(size()); }  // none is empty or equal to an earlier one
  std::string_view text(int32_t i) const {
    return std::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  int32_t find(std::string_view text) const { return find(text, hash_text(text)); }  // -1: not there
  int32_t find(std::string_view text, uint64_t hash) const;
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }

 private:
  // Texts of at most 8 bytes, which most tokens are, are compared within the slot: one cache miss for a look-up.
  struct Slot {
    uint64_t head = 0;  // load_head() of at most 8 bytes
    uint32_t tag = 0;   // the size when it is at most 8, else bits of the hash
    int32_t number = -1;
  };
  static Slot make_slot(std::string_view text, uint64_t hash);
  bool matches(const Slot& slot, const Slot& wanted, std::string_view text) const;
  void grow(uint64_t count);

  std::string arena_;
  std::vector<uint64_t> offsets_ = {0};
  LargeArray<Slot> slots_ = LargeArray<Slot>(16);
  uint64_t mask_ = 15;
  uint64_t used_ = 0;
  uint32_t longest_ = 0;
};

}  // namespace tenon::text
