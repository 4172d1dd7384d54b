// pieces.hpp: long inputs in pieces, so that the logits of many rows never lie in memory together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::launcher {

inline constexpr int64_t kGrid = 64;        // cuts of a prompt lie on it: then the pieces give what the whole gives
inline constexpr int64_t kMinPrefill = 16;  // fewer tokens would go through the decode phase

struct Piece {
  int64_t begin, end;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// [0, n) in pieces of `size` tokens. With `on_grid`, size is a multiple of 64 and at least 128, and a last piece of
// fewer than 16 tokens takes 64 from the piece before it.
std::vector<Piece> plan_pieces(int64_t n, int64_t size, bool on_grid);

// A multiple of 64 from 128 to 512, so that `rows_per_token` rows of logits for each token of a piece stay near 256 MB.
int64_t piece_size(int64_t vocab, int64_t rows_per_token);

// −log softmax(logits)[target], in double. Not finite where the logits are not.
double negative_log_likelihood(std::span<const float> logits, int32_t target);

// The index of the largest value, the first of equals. `values` is not empty.
int32_t argmax(std::span<const float> values);

}  // namespace tenon::launcher
