// expert_limits.hpp: what kernels of experts serve, and the memory that expert_ffn wants, known to plans and launches.
#pragma once

#include <cstdint>

namespace tenon::cuda {

constexpr int32_t kMaxExperts = 1024, kMaxTopK = 64;
constexpr int64_t kExpertTile = 64;  // slots of one expert that a block computes together in a prompt

// Tiles that groups of slots by expert can make: each expert's last one may be short.
inline int64_t max_expert_tiles(int64_t pairs, int64_t n_expert) {
  const int64_t tiles = pairs / kExpertTile + n_expert;
  return pairs < tiles ? pairs : tiles;
}

// Parts of the workspace of a prompt's launch; offsets in bytes. A pair is a row's slot, numbered row × top_k + slot.
struct ExpertWorkspace {
  int64_t count, tiles, n_tiles, pair, place, hidden, slots, bytes;
};
inline ExpertWorkspace expert_workspace(int64_t rows, int64_t top_k, int64_t n_expert, int64_t hidden, int64_t cols) {
  const int64_t pairs = rows * top_k;
  ExpertWorkspace at = {};
  const auto take = [&](int64_t bytes) {
    const int64_t begin = at.bytes;
    at.bytes += (bytes + 255) / 256 * 256;
    return begin;
  };
  at.count = take(n_expert * 4);                            // slots of an expert
  at.tiles = take(max_expert_tiles(pairs, n_expert) * 12);  // expert, first place, end
  at.n_tiles = take(4);
  at.pair = take(pairs * 4);   // at a place: the pair, by expert and then ascending
  at.place = take(pairs * 4);  // of a pair
  at.hidden = take(pairs * hidden * 4);
  at.slots = take(pairs * cols * 4);
  return at;
}
// Of a decode step: the hidden rows alone.
inline int64_t expert_decode_bytes(int64_t rows, int64_t top_k, int64_t hidden) { return rows * top_k * hidden * 4; }

}  // namespace tenon::cuda
