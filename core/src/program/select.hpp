// select.hpp: one kernel for every node of a phase, with the encodings between them and the reasons of those refused.
#pragma once

#include "device.hpp"
#include "graph/graph.hpp"
#include "node_table.hpp"
#include "weights.hpp"

#include <tenon/engine.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon::program {

struct Refusal {
  std::string kernel, reason;
};

// A line of `tenon inspect --kernels`.
struct Choice {
  std::string node, op, kernel, numeric_class;
  std::vector<std::string> dtypes;  // of the node's weights
  uint32_t layer = graph::kNoLayer, flags = 0;
  std::vector<Refusal> refusals;
};

struct Selected {
  graph::Node node;
  std::vector<graph::Node> parts;  // of a composite
  const tenon_kernel* kernel = nullptr;
  tenon_offer offer = {};
  std::unique_ptr<NodeTable> table;
  std::vector<uint32_t> layouts;  // of the weights
};

struct SelectOptions {
  uint32_t phase = TENON_PHASE_DECODE;
  Precision precision = Precision::kDefault;
  std::vector<std::string> prefer, forbid;
  bool composites = true;
  std::vector<const tenon_kernel*> exchanges;  // for values that ranks move between them
};

struct Selection {
  graph::Graph graph;  // the entry's, with the values that encodings added
  std::vector<std::unique_ptr<Selected>> nodes;  // in order of execution
  std::vector<Choice> choices;
};

// Chooses kernels and asks `weights` for their layouts. Throws Error(kFile) listing every refusal where no kernel serves a
// node. Order among those that accept: user preference, priority, numeric class by name, cost inside it, name.
Selection select_kernels(const graph::Graph& graph, const plugin::Registry& registry, const Device& device,
                         WeightSet& weights, const std::vector<tenon_store_type>& stores, const SelectOptions& options);

}  // namespace tenon::program
