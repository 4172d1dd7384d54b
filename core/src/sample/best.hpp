// best.hpp: the best token of a row of logits, of which a rank may have a part.
#pragma once

#include "graph/graph.hpp"

#include <tenon/sampler.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tenon {

// The largest number of a row, and whether something in it is none.
struct Peak {
  float value = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
};
Peak peak_of(std::span<const float> row);

// Columns of what there is of a row, and the first of the ids whose logits they are.
struct IdPiece {
  int64_t column = 0, id = 0, n = 0;
  bool operator==(const IdPiece&) const = default;
};
// What is left of a row that has these ids, side by side, without those of `never`: pieces that ascend.
std::vector<IdPiece> pieces_without(const graph::Ranges& ids, std::span<const IdRange> never);

// The best among the pieces of a row.
BestToken best_of(std::span<const float> row, std::span<const IdPiece> pieces);
// The best of two parts of a row together.
BestToken better_of(const BestToken& a, const BestToken& b);

}  // namespace tenon
