// stages.hpp: where a model is cut into pipeline stages of whole layers.
#pragma once

#include "graph/graph.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::parallel {

// What the choice of borders looks at. Nodes of no layer count with the layer before them, those before all layers with the first.
struct LayerCosts {
  std::vector<uint64_t> weight_bytes;  // of each layer
  std::vector<uint64_t> crossing;      // bytes a row that cross a border before each layer
  struct Tie {
    uint32_t first, last;  // layers
    std::string why;       // "layers 2 and 5 share the keys and values of layer 2"
  };
  std::vector<Tie> ties;  // layers that must be in one stage, with all between them
};
LayerCosts layer_costs(const graph::Graph& graph, const std::function<uint64_t(const graph::Weight&)>& bytes_of);

// The first layer of each stage, ascending, 0 first. Of the choices whose largest stage has at most an eighth more weight bytes than
// it must have, the one with the fewest bytes crossing; then the one whose largest stage is smaller; then lower layers. Throws
// Error(kUsage) for no stages, or more than there can be, saying why.
std::vector<uint32_t> pick_stages(const LayerCosts& costs, uint32_t n_stages);

}  // namespace tenon::parallel
