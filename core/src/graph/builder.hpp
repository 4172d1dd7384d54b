// builder.hpp: the host's side of tenon_builder: collects an entry graph, infers and checks every type.
#pragma once

#include "graph.hpp"
#include "names.hpp"

#include <string>
#include <vector>

namespace tenon::graph {

// What a draft's graph may use of others.
struct DraftFor {
  const Graph& main;    // of the model drafted for: its stores, by role, and its weights
  const Graph& before;  // the entry whose weights are numbered first; main or another draft
  int64_t width;        // of the hidden rows
  const NameMap* names;  // of the model drafted for
  uint32_t source;      // of the draft's own weights, as in Weight
};

// Runs architecture->build(model, entry) and returns the graph. Throws Error(kFile) with the architecture's or the
// builder's message; missing weights are listed together. Without `with_overlay` the graph is the one of a model that knows
// of no overlay and no spans, whatever the architecture says.
Graph build_graph(const tenon_architecture& architecture, void* model, std::string_view entry, const NameMap& names,
                  const DraftFor* draft = nullptr, bool with_overlay = false);

}  // namespace tenon::graph
