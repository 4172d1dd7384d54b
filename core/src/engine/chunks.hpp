// chunks.hpp: how a prompt is cut into prefill chunks.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon::engine {

// Lengths of the chunks for `n` ≥ 16 tokens from position `begin` on. Cuts stand on multiples of `grid`; no chunk has fewer
// than 16 tokens; none is longer than `cap` (a multiple of grid), except that a tail below 16 is joined to the chunk before
// when that is one grid step long.
std::vector<int64_t> plan_chunks(int64_t begin, int64_t n, int64_t cap, int64_t grid = 64);

}  // namespace tenon::engine
