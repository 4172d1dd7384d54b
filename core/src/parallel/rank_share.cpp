#include "rank_share.hpp"

#include <algorithm>
#include <utility>

namespace tenon::parallel {
namespace {

uint64_t row_bytes(const graph::Value& value) { return uint64_t(tenon_encoding_row_bytes(value.encoding, value.cols)); }

ExchangeBytes bytes_of_exchange(const CutGraph& cut, const graph::Node& node, uint32_t rank) {
  const Exchange& exchange = cut.exchanges[node.attr_as<ExchangeAttr>().index];
  ExchangeBytes out = {node.name, node.layer, exchange.kind, graph::domain_of(cut.graph, node) == TENON_DOMAIN_OUTPUT_ROWS, 0, 0};
  uint64_t own = 0, all = 0;
  for (const int32_t id : node.in) own += row_bytes(cut.graph.values[size_t(id)]);
  for (const int32_t id : node.out) all += row_bytes(cut.graph.values[size_t(id)]);
  switch (exchange.kind) {
    case Exchange::Kind::kSum: out.sent = out.received = own * (exchange.ranks.size() - 1); break;  // if each sends its value to each
    case Exchange::Kind::kParts: out.sent = own * (exchange.ranks.size() - 1), out.received = all - own; break;
    case Exchange::Kind::kColumns:
      for (const uint32_t to : exchange.to) out.sent += to == rank ? 0 : own;
      for (size_t i = 0; i < exchange.ranks.size() && all; ++i)
        if (exchange.ranks[i] != rank) out.received += uint64_t(tenon_encoding_row_bytes(TENON_ENC_F32, length(exchange.columns[i])));
      break;
    case Exchange::Kind::kSlots:
      for (size_t i = 0; i < exchange.ranks.size(); ++i) {
        if (exchange.ranks[i] == rank) continue;
        out.sent += uint64_t(tenon_encoding_row_bytes(TENON_ENC_F32, length(exchange.columns[i]) * exchange.slots)) * node.in.size();
      }
      out.received = all / exchange.ranks.size() * (exchange.ranks.size() - 1);
      break;
    case Exchange::Kind::kMove:
      for (const Move& move : exchange.moves) out.sent += move.from == rank ? own : 0;
      out.received = all;
      break;
  }
  return out;
}

// What one row reads of the node's weights.
uint64_t decode_bytes(const graph::Graph& graph, const graph::Node& node, const BytesOf& bytes_of) {
  if (node.op == TENON_OP_EMBED) return 0;  // a row of the table
  uint64_t bytes = 0;
  for (const int32_t id : node.weight) {
    const graph::Weight& weight = graph.weights[size_t(id)];
    const uint64_t all = bytes_of.weight(weight);
    const uint64_t chosen = node.op == TENON_OP_EXPERT_FFN ? node.attr_as<tenon_expert_ffn_attr>().top_k : 1;
    bytes += node.op == TENON_OP_EXPERT_FFN && weight.n_expert ? all * chosen / weight.n_expert : all;
  }
  return bytes;
}

}  // namespace

uint64_t RankShare::sent_bytes() const {
  uint64_t total = 0;
  for (const ExchangeBytes& exchange : exchanges) total += exchange.sent;
  return total;
}

uint64_t RankShare::received_bytes() const {
  uint64_t total = 0;
  for (const ExchangeBytes& exchange : exchanges) total += exchange.received;
  return total;
}

RankShare share_of(const CutGraph& cut, uint32_t rank, const BytesOf& bytes_of, size_t n_weights) {
  RankShare out;
  for (size_t i = n_weights; i < cut.graph.weights.size(); ++i) out.weight_bytes += bytes_of.weight(cut.graph.weights[i]);
  for (const graph::Node& node : cut.graph.nodes) {
    if (is_exchange(node.op)) {
      if (node.purpose != graph::Purpose::kTaps) out.exchanges.push_back(bytes_of_exchange(cut, node, rank));
      continue;
    }
    out.decode_bytes[node.layer] += decode_bytes(cut.graph, node, bytes_of);
  }
  for (const auto& [layer, bytes] : out.decode_bytes)
    if (layer != graph::kNoLayer) append(out.layers, layer, layer + 1);
  for (const graph::Store& store : cut.graph.stores)
    if (!store.is_absent && store.target < 0) (graph::is_paged(store.kind) ? out.cache_bytes : out.state_bytes) += bytes_of.store(store);
  return out;
}

std::vector<RankShare> shares_of_ranks(EntryGraphs entries, const CutOptions& how, const AlignmentOf& alignment, const BytesOf& bytes_of) {
  std::vector<RankShare> out;
  CutOptions own = how;
  for (own.rank = 0; own.rank < how.plan.n_ranks; ++own.rank) {
    std::vector<CutGraph> cuts;
    for (size_t i = 0; i < entries.size(); ++i) {
      const size_t n_weights = cuts.empty() ? 0 : cuts.back().graph.weights.size();
      cuts.push_back(cut_entry(entries, cuts, own, alignment));
      RankShare share = share_of(cuts.back(), own.rank, bytes_of, n_weights);
      if (i == 0) out.push_back(std::move(share));
      else out.back().drafts.push_back(std::move(share));
    }
  }
  return out;
}

}  // namespace tenon::parallel
