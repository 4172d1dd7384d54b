#include "cut.hpp"

#include "cut_experts.hpp"
#include "shares.hpp"
#include "values.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tenon::parallel {
namespace {

using graph::Graph;
using graph::Node;
using graph::Store;
using graph::Value;
using graph::Weight;

template <typename T>
void set_attr(Node& node, const T& attr) {
  node.attr.resize(sizeof attr);
  std::memcpy(node.attr.data(), &attr, sizeof attr);
}

std::optional<Shard> in_units(const Shard& shard, int64_t unit) {
  Shard out;
  for (const Ranges& part : shard.parts) {
    auto units = parallel::in_units(part, unit);
    if (!units) return std::nullopt;
    out.parts.push_back(std::move(*units));
  }
  return out;
}

Shard times(const Shard& units, int64_t unit) {
  Shard out;
  for (const Ranges& part : units.parts) out.parts.push_back(parallel::times(part, unit));
  return out;
}

class Cutter {
 public:
  Cutter(const Graph& in, const CutOptions& options, const AlignmentOf& alignment, const CutsBefore* before)
      : in_(in), plan_(options.plan), before_(before), values_(in, options, out_), shares_(in, values_, alignment, before, out_) {}

  CutGraph run() {
    graph_.softcap = in_.softcap, graph_.never = in_.never, graph_.id_map = in_.id_map, graph_.n_layers = in_.n_layers;
    graph_.sees_spans = in_.sees_spans;
    if (in_.overlay >= 0) graph_.overlay = values_.input(in_.overlay);
    for (const Node& node : in_.nodes) cut(node);
    const Group caller = {0};
    values_.turn_to(caller, section_, graph::kNoLayer, "logits");
    if (in_.logits >= 0) {
      std::tie(graph_.own_logits, graph_.own_columns) = values_.own_columns(in_.logits);
      values_.turn_to(graph::Purpose::kWholeLogits);
      graph_.logits = values_.whole(in_.logits);
    }
    values_.turn_to(graph::Purpose::kTaps);
    for (const auto& [name, value] : in_.taps) {
      values_.turn_to(caller, section_, graph::kNoLayer, "tap " + name);
      graph_.taps[name] = values_.whole(value);
    }
    return std::move(out_);
  }

 private:
  void turn_to(const Node& node) {
    if (node.layer != graph::kNoLayer) section_ = node.layer;
    if (node.op != TENON_OP_EMBED) return values_.turn_to(group_of(section_), section_, node.layer, node.name);
    const auto theirs = before_ ? before_->main.table_homes.find(node.weight[0]) : out_.table_homes.end();
    const bool is_theirs = before_ && theirs != before_->main.table_homes.end();
    const Group& home = out_.table_homes[node.weight[0]] = is_theirs ? theirs->second : group_of(section_);
    values_.turn_to(home, is_theirs ? kTables : section_, node.layer, node.name);
  }
  const Group& group_of(uint32_t section) const { return plan_.layers.at(section).tensor; }

  void cut(const Node& node) {
    turn_to(node);
    bool done = false;
    switch (node.op) {
      case TENON_OP_LINEAR: return linear(node);
      case TENON_OP_EXPERT_FFN: return cut_experts(in_, node, section_, plan_, plan_.layers.at(section_), values_, shares_);
      case TENON_OP_NORM: done = by_groups(node, node.attr_as<tenon_norm_attr>().group); break;
      case TENON_OP_ROPE: done = by_groups(node, node.attr_as<tenon_rope_attr>().head_dim); break;
      case TENON_OP_GATE: done = gate(node); break;
      case TENON_OP_GLU:
      case TENON_OP_ADD:
      case TENON_OP_MUL:
      case TENON_OP_SCALE:
      case TENON_OP_SOFTCAP: done = elementwise(node); break;
      case TENON_OP_KV_WRITE: done = kv_write(node); break;
      case TENON_OP_ATTENTION: done = attention(node); break;
      case TENON_OP_SHORT_CONV: done = short_conv(node); break;
      case TENON_OP_GATED_DELTA_RULE: done = gated_delta_rule(node); break;
      default: break;
    }
    if (!done) everywhere(node);
  }

  // Every rank computes all of it.
  void everywhere(const Node& node) {
    Node out = node;
    for (int32_t& id : out.in) id = values_.whole(id);
    for (int32_t& id : out.weight) id = shares_.weight(id);
    for (const int32_t id : out.store) shares_.whole_store(id, node);
    for (int32_t& id : out.out) id = values_.result(id, {});
    values_.add_node(std::move(out));
  }

  // The node on the rank's own columns.
  void apart(Node out, const std::vector<Shard>& results) {
    for (size_t i = 0; i < results.size(); ++i) out.out[i] = values_.result(out.out[i], results[i]);
    values_.add_node(std::move(out));
  }

  void linear(const Node& node) {
    const Shard shard = values_.shard_of(node.in[0]);
    // Weights of a node may be cut in different ways; each kind becomes a node of its own.
    std::vector<size_t> plain;
    for (size_t i = 0; i < node.weight.size(); ++i) {
      const Weight& w = in_.weights[size_t(node.weight[i])];
      if (w.role == TENON_ROLE_ROW && !shard.is_whole() && shares_.cut(shares_.axis(w, true)) == shard && sliced_linear(node, i)) continue;
      plain.push_back(i);
    }
    if (plain.empty()) return;
    Node out = node;
    out.in = {values_.whole(node.in[0])}, out.weight.clear(), out.out.clear();
    for (const size_t i : plain) {
      const Weight& w = in_.weights[size_t(node.weight[i])];
      Shard rows;
      if (w.role == TENON_ROLE_COLUMN) rows = shares_.cut(shares_.axis(w, false));
      if (w.role == TENON_ROLE_VOCAB) rows = shares_.cut_vocabulary(w);
      out.weight.push_back(rows.is_whole() ? shares_.weight(node.weight[i]) : shares_.weight(node.weight[i], values_.own_of(rows)));
      out.out.push_back(values_.result(node.out[i], rows));
    }
    values_.add_node(std::move(out));
  }

  // One product a part, over the part's columns, and their sum. False where a part's columns have no view.
  bool sliced_linear(const Node& node, size_t i) {
    const Shard shard = values_.shard_of(node.in[0]);
    const auto x = values_.own(node.in[0]);
    if (!x || in_.values[size_t(node.in[0])].is_view() || !values_.has_parts(shard)) return false;  // a view of a view does not exist
    std::vector<int32_t> views;
    for (uint32_t p = values_.own_parts().first; p < values_.own_parts().second; ++p) views.push_back(values_.part(*x, shard, p));
    std::vector<int32_t> sums;
    for (size_t k = 0; k < views.size(); ++k) {
      Node out = node;
      out.in = {views[k]};
      out.weight = {shares_.weight(node.weight[i], {}, shard.parts[values_.own_parts().first + k])};
      out.out = {sums.emplace_back(values_.add_value(in_.values[size_t(node.out[i])]))};
      values_.add_node(std::move(out));
    }
    values_.fold(node.out[i], sums, values_.parts());
    return true;
  }

  bool elementwise(const Node& node) {
    const Shard shard = values_.shard_of(node.in[0]);
    if (shard.is_whole()) return false;
    Node out = node;
    for (int32_t& id : out.in) {
      if (values_.shard_of(id) != shard) return false;
      const auto mine = values_.own(id);
      if (!mine) return false;
      id = *mine;
    }
    for (int32_t& id : out.weight) id = shares_.beside(id, in_.values[size_t(node.in[0])].cols, shard);
    apart(std::move(out), {shard});
    return true;
  }

  // Works on groups of columns, none of which may be cut: a norm's statistics, a rotary head. 0: on the whole row.
  bool by_groups(const Node& node, int64_t group) {
    const Shard shard = values_.shard_of(node.in[0]);
    const auto x = shard.is_whole() || !group || !in_units(shard, group) ? std::nullopt : values_.own(node.in[0]);
    if (!x) return false;
    Node out = node;
    out.in = {*x};
    for (int32_t& id : out.weight) id = shares_.weight(id);
    apart(std::move(out), {shard});
    return true;
  }

  bool gate(const Node& node) {
    const Shard shard = values_.shard_of(node.in[0]), gates = values_.shard_of(node.in[1]);
    if (shard.is_whole() || gates.is_whole()) return false;
    const int64_t group = in_.values[size_t(node.in[0])].cols / in_.values[size_t(node.in[1])].cols;
    const auto units = in_units(shard, group);
    const auto x = values_.own(node.in[0]), g = values_.own(node.in[1]);
    if (!units || *units != gates || !x || !g) return false;
    Node out = node;
    out.in = {*x, *g};
    apart(std::move(out), {shard});
    return true;
  }

  bool kv_write(const Node& node) {
    auto attr = node.attr_as<tenon_kv_write_attr>();
    const Shard k = values_.shard_of(node.in[0]), v = values_.shard_of(node.in[1]);
    if (k.is_whole() || v.is_whole()) return false;
    const auto heads = in_units(k, attr.head_dim), value_heads = in_units(v, attr.head_dim_v);
    const auto own_k = values_.own(node.in[0]), own_v = values_.own(node.in[1]);
    if (!heads || !value_heads || *heads != *value_heads || !own_k || !own_v) return false;
    attr.kv_heads = uint32_t(length(values_.own_of(*heads)));
    Node out = node;
    set_attr(out, attr);
    out.in = {*own_k, *own_v};
    Store store = in_.stores[size_t(node.store[0])];
    store.heads = attr.kv_heads;
    store.cols_k = int64_t(attr.kv_heads) * attr.head_dim, store.cols_v = int64_t(attr.kv_heads) * attr.head_dim_v;
    shares_.store(node.store[0], node, std::move(store), *heads);
    values_.add_node(std::move(out));
    return true;
  }

  // Whether on every rank the i-th query head it has reads the K/V head that it has to.
  bool heads_meet(const Shard& heads, const Shard& kv_heads, int64_t group) const {
    return values_.for_all_ranks([&](uint32_t rank, uint32_t n) {
      const auto q = listed(heads.of_rank(rank, n)), kv = listed(kv_heads.of_rank(rank, n));
      if (q.empty() || kv.empty() || q.size() % kv.size()) return false;
      for (size_t i = 0; i < q.size(); ++i)
        if (kv[i / (q.size() / kv.size())] != q[i] / group) return false;
      return true;
    });
  }

  bool attention(const Node& node) {
    auto attr = node.attr_as<tenon_attention_attr>();
    const Shard shard = values_.shard_of(node.in[0]);
    const Shard kv_heads = shares_.store_shard(node.store[0], node);
    if (shard.is_whole() || kv_heads.is_whole()) return false;
    const auto heads = in_units(shard, attr.head_dim);
    const auto q = values_.own(node.in[0]);
    if (!heads || !q || !heads_meet(*heads, kv_heads, attr.heads / attr.kv_heads))
      throw Error(ErrorKind::kUsage, fmt::format("{}: {} query heads over {} K/V heads cannot be cut in {}", node.name, attr.heads, attr.kv_heads,
                                                 values_.parts()));
    attr.heads = uint32_t(length(values_.own_of(*heads))), attr.kv_heads = uint32_t(length(values_.own_of(kv_heads)));
    Node out = node;
    set_attr(out, attr);
    out.in = {*q};
    apart(std::move(out), {times(*heads, attr.head_dim_v)});
    return true;
  }

  bool short_conv(const Node& node) {
    const Shard shard = values_.shard_of(node.in[0]);
    const auto x = shard.is_whole() ? std::nullopt : values_.own(node.in[0]);
    if (!x) return false;
    Node out = node;
    out.in = {*x}, out.weight = {shares_.weight(node.weight[0], values_.own_of(shard))};
    Store store = in_.stores[size_t(node.store[0])];
    store.cols_k = store.tape_cols = length(values_.own_of(shard));
    shares_.store(node.store[0], node, std::move(store), shard);
    apart(std::move(out), {shard});
    return true;
  }

  bool gated_delta_rule(const Node& node) {
    auto attr = node.attr_as<tenon_gated_delta_rule_attr>();
    const std::array<int64_t, 5> widths = {attr.key_dim, attr.key_dim, attr.value_dim, 1, 1};
    std::array<Shard, 5> heads;
    Node out = node;
    for (size_t i = 0; i < widths.size(); ++i) {
      const Shard shard = values_.shard_of(node.in[i]);
      const auto units = shard.is_whole() ? std::nullopt : in_units(shard, widths[i]);
      const auto x = units ? values_.own(node.in[i]) : std::nullopt;
      if (!x) return false;
      heads[i] = *units, out.in[i] = *x;
    }
    if (heads[0] != heads[1] || heads[2] != heads[3] || heads[2] != heads[4] || !delta_heads_meet(heads[0], heads[2], attr)) return false;
    for (int32_t& id : out.weight) id = shares_.beside(id, attr.value_heads, heads[2]);
    attr.key_heads = uint32_t(length(values_.own_of(heads[0]))), attr.value_heads = uint32_t(length(values_.own_of(heads[2])));
    set_attr(out, attr);
    Store store = in_.stores[size_t(node.store[0])];
    const int64_t nk = attr.key_heads, nv = attr.value_heads;
    store.heads = attr.value_heads, store.cols_k = nv * attr.key_dim;
    store.tape_cols = nk * attr.key_dim + nv * attr.value_dim + 2 * nv;
    shares_.store(node.store[0], node, std::move(store), heads[2]);
    apart(std::move(out), {times(heads[2], attr.value_dim)});
    return true;
  }

  bool delta_heads_meet(const Shard& key_heads, const Shard& value_heads, const tenon_gated_delta_rule_attr& attr) const {
    const auto key_of = [&](size_t i, size_t nk, size_t nv) { return attr.head_map == TENON_HEAD_MAP_MOD ? i % nk : i / (nv / nk); };
    return values_.for_all_ranks([&](uint32_t rank, uint32_t n) {
      const auto k = listed(key_heads.of_rank(rank, n)), v = listed(value_heads.of_rank(rank, n));
      if (k.empty() || v.empty() || v.size() % k.size()) return false;
      for (size_t i = 0; i < v.size(); ++i)
        if (k[key_of(i, k.size(), v.size())] != int64_t(key_of(size_t(v[i]), attr.key_heads, attr.value_heads))) return false;
      return true;
    });
  }


  static constexpr uint32_t kTables = graph::kNoLayer;  // the section of a draft's nodes that are with the model's tables
  const Graph& in_;
  const Plan& plan_;
  const CutsBefore* before_;
  CutGraph out_;
  Graph& graph_ = out_.graph;
  Values values_;
  Shares shares_;
  uint32_t section_ = 0;
};

void check(const Graph& graph, const CutOptions& options) {
  const Plan& plan = options.plan;
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::kUsage, why); };
  if (options.rank >= plan.n_ranks) refuse(fmt::format("rank {} of {}", options.rank, plan.n_ranks));
  if (plan.layers.size() < std::max(graph.n_layers, 1u)) refuse(fmt::format("a plan of {} layers for a graph of {}", plan.layers.size(), graph.n_layers));
  for (const Plan::Layer& layer : plan.layers)
    if (layer.tensor.empty() || plan.parts % layer.tensor.size())
      refuse(fmt::format("{} parts of a sum cannot be dealt to {} ranks", plan.parts, layer.tensor.size()));
}

}  // namespace

CutGraph cut_graph(const Graph& graph, const CutOptions& options, const AlignmentOf& alignment, const CutsBefore* before) {
  check(graph, options);
  return Cutter(graph, options, alignment, before).run();
}

}  // namespace tenon::parallel
