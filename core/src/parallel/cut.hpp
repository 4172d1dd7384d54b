// cut.hpp: from an entry's graph to the graph of one rank: weights cut by their declared roles, attributes of what a rank has
// left of heads and channels, and exchanges where a rank needs what others have.
#pragma once

#include "graph/graph.hpp"
#include "plan.hpp"
#include "shard.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::parallel {

// A node that moves values between ranks. Its attribute is an ExchangeAttr.
struct Exchange {
  enum class Kind : uint32_t {
    kParts,    // in: a rank's own parts of a sum; out: those of all ranks, in order
    kColumns,  // in: a rank's own columns; out: all columns
  };
  Kind kind = Kind::kParts;
  std::vector<Ranges> columns;  // kColumns: of each rank
};
struct ExchangeAttr {
  uint32_t struct_size, index;  // in CutGraph::exchanges
};


struct CutOptions {
  uint32_t n_ranks = 1, rank = 0;
  uint32_t parts = 1;  // of each sum over a cut axis, a multiple of n_ranks; they are folded in order
};

// What must stay together in a weight: elements of its rows' axis and of its columns' axis, and why ("a block of q4_k").
struct Alignment {
  int64_t rows = 1, cols = 1;
  std::string why;
};
using AlignmentOf = std::function<Alignment(const graph::Weight&)>;

struct CutGraph {
  graph::Graph graph;
  std::vector<Exchange> exchanges;
};

// Throws Error(kUsage) naming the weight, the numbers and the rule where the model cannot be cut like that.
CutGraph cut_graph(const graph::Graph& graph, const CutOptions& options, const AlignmentOf& alignment);

}  // namespace tenon::parallel
