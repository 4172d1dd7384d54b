// plan.hpp: which ranks work on which layer of a model, from what a user asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::parallel {

constexpr uint32_t kMostRanks = 64;

// One layer and the ranks, in order, that a list gives it.
struct LayerRanks {
  uint32_t layer = 0;
  std::vector<uint32_t> ranks;
  bool operator==(const LayerRanks&) const = default;
};

// A list "0-3@0,1;7@2,3": layers, or ranges of at most 128 of them, each with 2 to 64 different ranks. "all" stands for the
// `n_layers` of the model where `takes_all`. Empty and "0" are the empty list. Layers come in the order in which they are
// written. Throws Error(kUsage), naming `option` and the item, for anything else: a layer that is given twice, blanks.
std::vector<LayerRanks> parse_layer_ranks(std::string_view option, std::string_view text, uint32_t n_layers, bool takes_all);

// What a user asks for. Numbers above 1 and lists exclude each other.
struct PlanOptions {
  uint32_t tensor = 1;        // ranks that share each layer
  uint32_t experts = 1;       // owners over which the experts of a layer are dealt
  uint32_t pipeline = 1;      // stages of whole layers
  std::string tensor_layers, expert_layers;  // lists in place of the numbers; "" = none
  bool interleave_experts = false;           // of n owners, the i-th has the experts i, i + n …, and not neighbours
  uint32_t sum_parts = 0;     // of sums over a cut axis; 0 = as few as the ranks of each layer allow
  uint32_t expert_parts = 0;  // of the sums inside an expert; 0 = as sum_parts where every
                              // expert is on all ranks of its layer, else as few as the ranks of each owner allow
};

// Ranks are numbered from 0; rank 0 is the caller.
struct Plan {
  struct Layer {
    std::vector<uint32_t> tensor;   // that share attention and dense parts, in order
    std::vector<uint32_t> experts;  // that share the experts, in order: owner by owner
    uint32_t owners = 1;            // each is experts.size() / owners ranks, which cut the inner width of their experts
    bool operator==(const Layer&) const = default;
  };
  uint32_t n_ranks = 1;
  std::vector<Layer> layers;  // of the graph, at least one
  // Of sums over a cut axis, and inside an expert. 0: of a layer as many as it has ranks, of an owner as many as it is.
  uint32_t parts = 1, expert_parts = 1;
  bool interleave_experts = false;
  bool operator==(const Plan&) const = default;
};

// The first layer of each of so many stages of a pipeline, ascending, 0 first.
using PickStages = std::function<std::vector<uint32_t>(uint32_t n_stages)>;

// By numbers, a stage has as many ranks as the larger of the two, stage after stage; its first ones share the attention. By
// lists, layers that none names are rank 0's alone, and experts are dealt by ranks that the layer's own rank is one of.
// `pick` is asked where there are several stages. Throws Error(kUsage) saying which option, which numbers and what rule.
Plan make_plan(const PlanOptions& options, uint32_t n_layers, const PickStages& pick = nullptr);
// The number of ranks alone, as options that do not depend on the model say it: of lists, one more than the highest.
uint32_t count_ranks(const PlanOptions& options);

}  // namespace tenon::parallel
