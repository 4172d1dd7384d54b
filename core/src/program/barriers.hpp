// barriers.hpp: where the workers of a team must wait for each other.
#pragma once

#include "select.hpp"

#include <tenon/abi.h>

#include <vector>

namespace tenon::program {

// For each node: true if a barrier must stand before it. A barrier stands where a reader's share differs from the writer's:
// values that every worker computed for itself need none, nor do columns or rows that the same worker wrote.
//   plans  the kernels' plans, in the order of selection.nodes
std::vector<bool> place_barriers(const Selection& selection, const std::vector<tenon_plan>& plans, uint32_t n_workers);

// Worker shares compare as fractions of the columns; exposed for tests.
//   cols_a, cols_b  columns that OUT_COLS units divide
bool equal_column_shares(const tenon_plan& a, int64_t cols_a, const tenon_plan& b, int64_t cols_b, uint32_t n_workers);

}  // namespace tenon::program
