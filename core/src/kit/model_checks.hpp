// model_checks.hpp: a whole model on the reference backend.
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "subject.hpp"

namespace tenon::kit {

// Every member of a graph, as text: equal texts mean equal graphs.
std::string graph_text(const graph::Graph& graph);

// The model of --model, loaded as the engine loads it: runs repeat, and neither the cut of a prompt, nor the grouping
// of steps, nor company changes a bit; prefill and decode agree within a bound.
void check_model(Session& session, Opened& opened);

}  // namespace tenon::kit
