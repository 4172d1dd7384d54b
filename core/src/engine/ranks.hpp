// ranks.hpp: a model over several ranks of this process. Each rank is a model of its own, with its share of the weights and
// stores, and does what rank 0 does: the same calls with the same tokens.
#pragma once

#include "loaded.hpp"
#include "parallel/rank_threads.hpp"
#include "plugin/plugin_host.hpp"

#include <tenon/engine.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::engine {

struct Ranks {
  std::vector<std::unique_ptr<Model>> others;  // rank 1, 2 …
  parallel::RankThreads threads;               // ends before the models do
};

// Rank 0 of a new group of as many ranks as the options name, over the collective that they name. Throws Error(kUsage) for too
// many ranks, and saying what is installed.
RankPlace first_place(plugin::PluginHost& plugins, const ModelOptions& options);

// What the ranks have saved of a sequence, as one; and apart again. Throws Error(kUsage) for bytes of another number of ranks.
std::vector<uint8_t> join_saved(const std::vector<std::vector<uint8_t>>& of_rank);
std::vector<std::span<const uint8_t>> split_saved(std::span<const uint8_t> bytes, size_t n_ranks);

}  // namespace tenon::engine
