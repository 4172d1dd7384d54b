// cut.hpp: from an entry's graph to the graph of one rank: weights cut by their declared roles, attributes of what a rank has
// left of heads and channels, and exchanges where a rank needs what others have.
#pragma once

#include "graph/graph.hpp"
#include "plan.hpp"
#include "shard.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace tenon::parallel {

using Group = std::vector<uint32_t>;  // ranks, in order

struct Move {
  uint32_t from = 0, to = 0;  // ranks
};

// A node that moves values between ranks. Its attribute is an ExchangeAttr. Only ranks that take part have the node.
struct Exchange {
  enum class Kind : uint32_t {
    kParts,    // in: a rank's own parts of a sum; out: those of all ranks of the group, in order
    kColumns,  // in: own columns of a rank of the group; out, on each rank of `to`: all columns
    kSum,      // in: a value; out: the sum of all ranks' values, as the collective adds them; over all ranks of the model
    kMove,     // in: a whole value, on ranks that give it; out: the same, on ranks that get it
    kSlots,    // in: a rank's own parts of all slots; out: its own columns of all parts of them, of each part from every owner
  };
  Kind kind = Kind::kParts;
  Group ranks;                  // kParts, kColumns, kSum, kSlots: the group; of experts owner by owner
  Group to;                     // kColumns
  std::vector<Ranges> columns;  // kColumns, kSlots: of each rank of the group; of a slot one range
  std::vector<Move> moves;      // kMove
  uint32_t owners = 1, slots = 0;  // kSlots: of the experts; of a row
};
struct ExchangeAttr {
  uint32_t struct_size, index;  // in CutGraph::exchanges
};
// Whether a node's op is one of those that an Exchange belongs to.
constexpr bool is_exchange(uint32_t op) {
  return op == TENON_OP_ALL_GATHER || op == TENON_OP_ALL_REDUCE || op == TENON_OP_ALL_TO_ALL || op == TENON_OP_SEND || op == TENON_OP_RECV;
}

struct CutOptions {
  const Plan& plan;
  uint32_t rank = 0;
  // Each rank adds its own parts of a sum first. Then its group's are added up, in order; or by a collective that adds, where
  // the group is all ranks.
  bool fast_sums = false, collective_adds = false;
};

// What must stay together in a weight: elements of its rows' axis and of its columns' axis, and why ("a block of q4_k").
struct Alignment {
  int64_t rows = 1, cols = 1;
  std::string why;
};
using AlignmentOf = std::function<Alignment(const graph::Weight&)>;

// Who has a store of the old graph, and how its heads or channels are dealt to them.
struct StoreHome {
  Group group;
  uint32_t layer = graph::kNoLayer;  // of the first node that uses it
  Shard shard;  // paged: K/V heads; conv: channels; recurrent: value heads
};

// The graph's logits and taps are on rank 0; elsewhere they are -1. Nodes that bring them there say so in their purpose.
struct CutGraph {
  graph::Graph graph;
  std::vector<Exchange> exchanges;
  // What drafts go on from. Of the old graph: the share of a weight (rows, columns, experts) that has a number in the new one;
  // stores; the ranks that gather from a table.
  std::map<std::tuple<int32_t, Ranges, Ranges, Ranges>, int32_t> weight_shares;
  std::map<int32_t, StoreHome> store_homes;
  std::map<int32_t, Group> table_homes;
};
// The cuts, for the same rank, that a draft's goes on from: of the model, and of the entry whose weights are numbered before its own.
struct CutsBefore {
  const CutGraph &main, &last;
};

// The rank's part of a graph: nodes of a layer are those of the ranks that share it, nodes of no layer those of the layer before
// them, or of the first. A draft's weights are numbered behind those of the cuts before it, and what it gathers from a table that
// the model has it is sent by those who have it. Throws Error(kUsage) naming the weight, the numbers and the rule where the model cannot be cut like that.
CutGraph cut_graph(const graph::Graph& graph, const CutOptions& options, const AlignmentOf& alignment, const CutsBefore* before = nullptr);

}  // namespace tenon::parallel
