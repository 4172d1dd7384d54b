#include "entries.hpp"

#include "stages.hpp"

#include <algorithm>

namespace tenon::parallel {

std::vector<uint32_t> homes_of_draft(const graph::Graph& main, const graph::Graph& draft) {
  std::vector<uint32_t> out(std::max(draft.n_layers, 1u), std::max(main.n_layers, 1u) - 1);
  for (const graph::Store& store : draft.stores) {
    if (store.target < 0 || store.layer >= out.size()) continue;
    if (const uint32_t layer = main.stores[size_t(store.target)].layer; layer < main.n_layers) out[store.layer] = layer;
  }
  return out;
}

std::vector<uint64_t> draft_weight_bytes(EntryGraphs entries, const std::function<uint64_t(const graph::Weight&)>& bytes_of) {
  std::vector<uint64_t> out(std::max(entries[0]->n_layers, 1u));
  for (size_t i = 1; i < entries.size(); ++i) {
    const std::vector<graph::Weight>& weights = entries[i]->weights;
    const size_t n_known = entries[i - 1]->weights.size();
    const LayerCosts costs = layer_costs(*entries[i], [&](const graph::Weight& weight) { return size_t(&weight - weights.data()) < n_known ? 0 : bytes_of(weight); });
    const std::vector<uint32_t> homes = homes_of_draft(*entries[0], *entries[i]);
    for (size_t layer = 0; layer < homes.size(); ++layer) out[homes[layer]] += costs.weight_bytes[layer];
  }
  return out;
}

CutGraph cut_entry(EntryGraphs entries, std::span<const CutGraph> before, const CutOptions& options, const AlignmentOf& alignment) {
  const graph::Graph& graph = *entries[before.size()];
  if (before.empty()) return cut_graph(graph, options, alignment);
  Plan plan = options.plan;
  plan.layers.clear();
  for (const uint32_t layer : homes_of_draft(*entries[0], graph)) plan.layers.push_back(options.plan.layers.at(layer));
  const CutsBefore cuts = {before.front(), before.back()};
  return cut_graph(graph, {plan, options.rank, options.fast_sums, options.collective_adds}, alignment, &cuts);
}

}  // namespace tenon::parallel
