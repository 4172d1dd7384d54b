// chunks.hpp: how a prompt is cut into prefill chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::engine {

// Lengths of the chunks for `n` ≥ 16 tokens from position `begin` on. Cuts stand on multiples of `grid`; no chunk has fewer
// than 16 tokens; none is longer than `cap` (a multiple of grid), except that with cap = grid up to 15 tokens before the first
// grid point and a tail of up to 15 are joined to the step between them.
//
// No cut goes through a span, of those in `uncut`, which ascend: it moves to the span's begin, or where that is less than 16
// tokens on to its end; then a chunk may be as long as the span and 15 tokens on either side.
struct UncutSpan {
  int64_t begin, end;  // positions; the end is not in it
};
std::vector<int64_t> plan_chunks(int64_t begin, int64_t n, int64_t cap, std::span<const UncutSpan> uncut = {}, int64_t grid = 64);

// The longest chunk that plan_chunks() makes, with spans if none is longer than the cap.
int64_t longest_chunk(int64_t cap, bool with_spans = false, int64_t grid = 64);

}  // namespace tenon::engine
