// rank_share.hpp: what of a model each rank has, and what it moves to others: for people to read.
#pragma once

#include "cut.hpp"
#include "entries.hpp"

#include <cstdint>
#include <functional>
#include <map>
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
  Ranges layers;              // with nodes on this rank
  uint64_t weight_bytes = 0;
  // Of weights that one row reads, by layer (kNoLayer too): of experts as many as are chosen, if all are chosen alike.
  std::map<uint32_t, uint64_t> decode_bytes;
  uint64_t cache_bytes = 0;   // a token
  uint64_t state_bytes = 0;   // a sequence, whatever its length
  std::vector<ExchangeBytes> exchanges;  // in order, but those for taps
  std::vector<RankShare> drafts;         // of each; weights and stores that the entries before it have are theirs
  uint64_t sent_bytes() const;           // a row that all exchanges are for
  uint64_t received_bytes() const;
};

// Bytes of a weight and of a store (of a token, or of a state), or of the share of it that a cut graph has.
struct BytesOf {
  std::function<uint64_t(const graph::Weight&)> weight;
  std::function<uint64_t(const graph::Store&)> store;
};
// Of an entry, where those before it have the first `n_weights` of its weights.
RankShare share_of(const CutGraph& cut, uint32_t rank, const BytesOf& bytes_of, size_t n_weights = 0);
// Main's of all ranks of the plan, with those of drafts. Throws as cut_graph().
std::vector<RankShare> shares_of_ranks(EntryGraphs entries, const CutOptions& how, const AlignmentOf& alignment, const BytesOf& bytes_of);

}  // namespace tenon::parallel
