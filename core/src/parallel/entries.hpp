// entries.hpp: a model's entries over ranks: main is cut by the plan, and drafts go with the layers that they depend on.
#pragma once

#include "cut.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tenon::parallel {

using EntryGraphs = std::span<const graph::Graph* const>;  // main, then drafts as their weights are numbered; none of them cut

// The layer of main whose ranks have a draft's layer, by layer: that whose keys it reads, or else the last one, where the hidden
// rows come from.
std::vector<uint32_t> homes_of_draft(const graph::Graph& main, const graph::Graph& draft);

// Bytes of the weights that drafts bring, by the layer of main that they go with.
std::vector<uint64_t> draft_weight_bytes(EntryGraphs entries, const std::function<uint64_t(const graph::Weight&)>& bytes_of);

// The rank's part of entry number before.size(), behind the cuts of those before it. options.plan is main's. Throws as cut_graph().
CutGraph cut_entry(EntryGraphs entries, std::span<const CutGraph> before, const CutOptions& options, const AlignmentOf& alignment);

}  // namespace tenon::parallel
