// lane.hpp: one lane of a panel, as packing fills it.
#pragma once

#include <cstring>

#include "types.hpp"

namespace tenon::block {

inline uint32_t word_at(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}
inline uint16_t half_at(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return half;
}

// One lane of one panel: where its words, halves and bytes go.
struct Lane {
  uint8_t* scales;  // of the unit
  uint8_t* codes;   // of the unit's first block
  int index;
  void word(int64_t block_offset, int vector, uint32_t value) const {
    std::memcpy(codes + block_offset + vector * 64 + index * 4, &value, 4);
  }
  void half(int position, uint16_t value) const { std::memcpy(scales + position * 32 + index * 2, &value, 2); }
  void byte(int64_t offset, uint8_t value) const { scales[offset + index] = value; }
};

// Eight words of 4-bit codes, one code a byte, to the four words that a lane keeps.
inline void put_nibbles(const Lane& lane, int64_t block_offset, const uint32_t (&quad)[8]) {
  for (int v = 0; v < 4; ++v) lane.word(block_offset, v, quad[v] | quad[v + 4] << 4);
}
// Eight words of 2-bit codes, one a byte, to two words.
inline void put_pairs(const Lane& lane, int64_t block_offset, int vector, const uint32_t (&quad)[8]) {
  for (int v = 0; v < 2; ++v)
    lane.word(block_offset, vector + v,
              quad[4 * v] | quad[4 * v + 1] << 2 | quad[4 * v + 2] << 4 | quad[4 * v + 3] << 6);
}

}  // namespace tenon::block
