// prefill_plan.hpp: the chunks of a prompt, and where they leave checkpoints.
#pragma once

#include "chunks.hpp"
#include "prefix_index.hpp"

#include <tenon/engine.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tenon::engine {

struct PrefillChunk {
  int64_t n;
  std::optional<Mark> mark;  // a checkpoint behind it
};

// Chunks as of plan_chunks(). With `wanted` positions on the grid chunks end there as well, wherever that leaves 16 tokens
// behind them; of the other chunk ends those get a checkpoint that are the last ones 512, 1024, 2048 … tokens before the end.
// A sequence that goes on off the grid may have fewer than 16 tokens to the first of the positions: those are decode steps.
// Where spans are not to be cut nothing is wanted: such a text leaves no checkpoints.
std::vector<PrefillChunk> plan_prefill(int64_t begin, int64_t n, int64_t cap, const std::map<int64_t, Mark>* wanted,
                                       std::span<const UncutSpan> uncut = {});

// The positions where a prompt of n tokens is to leave checkpoints. `most` = how many can be kept.
std::map<int64_t, Mark> wanted_checkpoints(int64_t n, const ResumeOptions& options, int64_t most);

}  // namespace tenon::engine
