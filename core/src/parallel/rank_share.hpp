// rank_share.hpp: what of a model each rank has, and what it moves to others: for people to read.
#pragma once

#include "cut.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::parallel {

struct ExchangeBytes {
  std::string node;  // what it is for
  uint32_t layer = graph::kNoLayer;
  Exchange::Kind kind = Exchange::Kind::kParts;
  bool is_tail = false;  // rows are those whose logits are wanted; else all
  uint64_t sent = 0, received = 0;  // bytes a row, to and from all peers together
};

struct RankShare {
  uint64_t weight_bytes = 0;
  std::vector<ExchangeBytes> exchanges;  // in order, but those for taps
  uint64_t sent_bytes() const;           // a row that all exchanges are for
};

// `bytes_of` answers bytes of a weight, or of the share of it that a cut graph has.
using BytesOf = std::function<uint64_t(const graph::Weight&)>;
RankShare share_of(const CutGraph& cut, uint32_t rank, const BytesOf& bytes_of);
// Of all ranks of the plan. Throws as cut_graph().
std::vector<RankShare> shares_of_ranks(const graph::Graph& graph, const CutOptions& how, const AlignmentOf& alignment, const BytesOf& bytes_of);

}  // namespace tenon::parallel
