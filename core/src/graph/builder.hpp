// builder.hpp: the host's side of tenon_builder: collects an entry graph, infers and checks every type.
#pragma once

#include "graph.hpp"
#include "names.hpp"

#include <string>
#include <vector>

namespace tenon::graph {

// Runs architecture->build(model, entry) and returns the graph. Throws Error(kFile) with the architecture's or the
// builder's message; missing weights are listed together.
Graph build_graph(const tenon_architecture& architecture, void* model, std::string_view entry, const NameMap& names);

}  // namespace tenon::graph
