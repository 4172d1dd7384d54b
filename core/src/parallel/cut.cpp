#include "cut.hpp"

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

// Elements of ranges one by one: heads.
std::vector<int64_t> listed(const Ranges& ranges) {
  std::vector<int64_t> out;
  for (const Range& range : ranges)
    for (int64_t i = range.begin; i < range.end; ++i) out.push_back(i);
  return out;
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
  Cutter(const Graph& in, const CutOptions& options, const AlignmentOf& alignment)
      : in_(in), options_(options), alignment_(alignment), held_(in.values.size()) {}

  CutGraph run() {
    graph_.softcap = in_.softcap, graph_.never = in_.never, graph_.id_map = in_.id_map, graph_.n_layers = in_.n_layers;
    graph_.sees_spans = in_.sees_spans;
    if (in_.overlay >= 0) graph_.overlay = held(in_.overlay).own;
    for (const Node& node : in_.nodes) cut(node);
    graph_.logits = whole(in_.logits);
    for (const auto& [name, value] : in_.taps) graph_.taps[name] = whole(value);
    return std::move(out_);
  }

 private:
  // What the new graph has of a value of the old one that is no view.
  struct Held {
    Shard shard;
    int32_t own = -1, whole = -1;  // the rank's columns; all columns
  };

  // --- Values ---------------------------------------------------------------------------------------------------------

  int32_t add_value(const Value& value) {
    graph_.values.push_back(value);
    return int32_t(graph_.values.size()) - 1;
  }
  // Whether `holds` for every rank of every number of ranks that these parts can be dealt to. What a graph looks like is
  // decided by this alone, so that the bits depend on the parts and not on the ranks.
  template <typename Holds>
  bool for_all_ranks(Holds&& holds) const {
    for (uint32_t n = 1; n <= options_.parts; ++n)
      for (uint32_t rank = 0; options_.parts % n == 0 && rank < n; ++rank)
        if (!holds(rank, n)) return false;
    return true;
  }
  Ranges own_of(const Shard& shard, uint32_t rank) const { return shard.of_rank(rank, options_.n_ranks); }
  Ranges own_of(const Shard& shard) const { return own_of(shard, options_.rank); }

  Held& held(int32_t old) {
    Held& held = held_[size_t(old)];
    if (held.own < 0) held.own = held.whole = add_value(in_.values[size_t(old)]);  // an input of the step
    return held;
  }

  Shard shard_of(int32_t old) {
    const Value& value = in_.values[size_t(old)];
    if (!value.is_view()) return held(old).shard;
    const Shard& base = held(value.base).shard;
    return base.is_whole() ? base : seen_through(base, value.col0, value.cols, value.groups, value.group_step);
  }

  // All columns of an old value.
  int32_t whole(int32_t old) {
    const Value& value = in_.values[size_t(old)];
    if (value.is_view()) return viewed(whole(value.base), {value.col0, value.cols, value.groups, value.group_step}, value);
    Held& it = held(old);
    if (it.whole < 0 && options_.n_ranks == 1) it.whole = it.own;
    if (it.whole < 0) it.whole = gathered(it, value);
    return it.whole;
  }

  int32_t gathered(const Held& it, const Value& value) {
    Exchange exchange = {Exchange::Kind::kColumns, {}};
    for (uint32_t r = 0; r < options_.n_ranks; ++r) exchange.columns.push_back(own_of(it.shard, r));
    const int32_t out = add_value(value);
    add_exchange(std::move(exchange), {it.own}, {out});
    return out;
  }

  int32_t viewed(int32_t base, const Strided& view, const Value& like) {
    const Value& of = graph_.values[size_t(base)];
    if (view.groups == 1 && view.col0 == 0 && view.cols == of.cols) return base;
    const auto [it, fresh] = views_.try_emplace({base, view.col0, view.cols, view.groups, view.group_step}, -1);
    if (fresh) {
      Value out = like;
      out.base = base, out.col0 = view.col0, out.cols = view.cols, out.groups = view.groups, out.group_step = view.group_step;
      it->second = add_value(out);
    }
    return it->second;
  }

  // The rank's own columns of an old value; nullopt where some rank has no view that shows them.
  std::optional<int32_t> own(int32_t old) {
    const Value& value = in_.values[size_t(old)];
    if (!value.is_view()) return held(old).own;
    if (held(value.base).shard.is_whole()) return whole(old);
    const Shard seen = shard_of(old), &base = held(value.base).shard;
    const auto view = [&](uint32_t rank, uint32_t n) { return as_view(base.of_rank(rank, n), unseen(value, seen.of_rank(rank, n))); };
    if (!for_all_ranks([&](uint32_t rank, uint32_t n) { return view(rank, n).has_value(); })) return std::nullopt;
    return viewed(held(value.base).own, *view(options_.rank, options_.n_ranks), value);
  }

  // Columns of a view as columns of what it views.
  static Ranges unseen(const Value& view, const Ranges& seen) {
    Ranges out;
    const int64_t width = view.cols / view.groups;
    for (const Range& range : seen)
      for (int64_t at = range.begin; at < range.end;) {
        const int64_t end = std::min(range.end, (at / width + 1) * width);
        const int64_t begin = view.col0 + at / width * view.group_step + at % width;
        append(out, begin, begin + end - at);
        at = end;
      }
    return out;
  }

  // A node's result: `shard` of the old value, or all of it.
  int32_t result(int32_t old, const Shard& shard) {
    Value value = in_.values[size_t(old)];
    Held& it = held_[size_t(old)];
    it.shard = shard;
    if (!shard.is_whole()) value.cols = length(own_of(shard));
    it.own = add_value(value);
    if (shard.is_whole()) it.whole = it.own;
    return it.own;
  }

  // --- Weights, stores, exchanges -------------------------------------------------------------------------------------

  int32_t weight(int32_t old, const Ranges& rows = {}, const Ranges& cols = {}) {
    const auto known = weights_.find({old, rows, cols});
    if (known != weights_.end()) return known->second;
    Weight out = in_.weights[size_t(old)];
    if (out.divisor >= 0) out.divisor = weight(out.divisor);
    if (out.is_constant && (!rows.empty() || !cols.empty())) out.constant = kept(out, rows, cols);
    if (!out.is_constant && !rows.empty()) out.file_rows = out.rows, out.kept_rows = rows;
    if (!out.is_constant && !cols.empty()) out.file_cols = out.cols, out.kept_cols = cols;
    if (!rows.empty()) out.rows = length(rows);
    if (!cols.empty()) out.cols = length(cols);
    graph_.weights.push_back(std::move(out));
    return weights_[{old, rows, cols}] = int32_t(graph_.weights.size()) - 1;
  }

  static std::vector<float> kept(const Weight& weight, Ranges rows, Ranges cols) {
    if (weight.divisor >= 0) throw Error(ErrorKind::kUsage, fmt::format("weight {}: a divided constant cannot be cut", weight.name));
    if (rows.empty()) rows = {{0, weight.rows}};
    if (cols.empty()) cols = {{0, weight.cols}};
    std::vector<float> out;
    for (const int64_t row : listed(rows))
      for (const int64_t col : listed(cols)) out.push_back(weight.constant[size_t(row * weight.cols + col)]);
    return out;
  }

  Axis axis(const Weight& weight, bool columns) const {
    const Alignment align = alignment_(weight);
    Axis out;
    out.name = fmt::format("weight {}, {}", weight.name, columns ? "columns" : "rows");
    out.size = columns ? weight.cols : weight.rows;
    out.segments = weight.segments;
    out.align = columns ? align.cols : align.rows, out.align_why = align.why;
    out.repeat_if_short = weight.flags & TENON_DECL_REPEAT_IF_SHORT;
    return out;
  }

  // Parts that need not be equal, with borders where the dtype allows them.
  Shard cut_vocabulary(const Weight& weight) const {
    const int64_t align = alignment_(weight).rows, units = (weight.rows + align - 1) / align;
    if (units < int64_t(options_.parts))
      throw Error(ErrorKind::kUsage, fmt::format("weight {}: {} rows cannot be cut in {}", weight.name, weight.rows, options_.parts));
    Shard out;
    for (int64_t p = 0; p < int64_t(options_.parts); ++p)
      out.parts.push_back({{units * p / options_.parts * align, std::min(units * (p + 1) / options_.parts * align, weight.rows)}});
    return out;
  }

  int32_t add_store(int32_t old, Store store) {
    graph_.stores.push_back(std::move(store));
    return stores_[old] = int32_t(graph_.stores.size()) - 1;
  }
  // A store that every rank has all of.
  int32_t whole_store(int32_t old, const Node& node) {
    const auto known = stores_.find(old);
    if (known == stores_.end()) return add_store(old, in_.stores[size_t(old)]);
    if (!store_shards_[old].is_whole())
      throw Error(ErrorKind::kUsage, fmt::format("{}: it reads a store whose heads are cut over the ranks, by heads that are not", node.name));
    return known->second;
  }

  void add_exchange(Exchange exchange, std::vector<int32_t> in, std::vector<int32_t> out) {
    Node node;
    node.op = TENON_OP_ALL_GATHER, node.layer = layer_, node.name = name_;
    set_attr(node, ExchangeAttr{sizeof(ExchangeAttr), uint32_t(out_.exchanges.size())});
    node.in = std::move(in), node.out = std::move(out);
    out_.exchanges.push_back(std::move(exchange));
    graph_.nodes.push_back(std::move(node));
  }

  // The sum of all ranks' parts in ascending order, the same on each rank.
  void fold(int32_t old, const std::vector<int32_t>& own_parts) {
    const Value& value = in_.values[size_t(old)];
    std::vector<int32_t> parts = own_parts;
    if (options_.n_ranks > 1) {
      parts.clear();
      for (uint32_t p = 0; p < options_.parts; ++p) parts.push_back(add_value(value));
      add_exchange({Exchange::Kind::kParts, {}}, own_parts, parts);
    }
    int32_t sum = parts[0];
    for (size_t p = 1; p < parts.size(); ++p) {
      Node node;
      node.op = TENON_OP_ADD, node.layer = layer_, node.name = name_;
      const int32_t next = add_value(value);
      node.in = {sum, parts[p]}, node.out = {next};
      graph_.nodes.push_back(std::move(node));
      sum = next;
    }
    Held& it = held_[size_t(old)];
    it.own = it.whole = sum;
  }

  // --- Nodes ----------------------------------------------------------------------------------------------------------

  void cut(const Node& node) {
    layer_ = node.layer, name_ = node.name;
    bool done = false;
    switch (node.op) {
      case TENON_OP_LINEAR: return linear(node);
      case TENON_OP_EXPERT_FFN: return expert_ffn(node);
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
    for (int32_t& id : out.in) id = whole(id);
    for (int32_t& id : out.weight) id = weight(id);
    for (int32_t& id : out.store) id = whole_store(id, node);
    for (int32_t& id : out.out) id = result(id, {});
    graph_.nodes.push_back(std::move(out));
  }

  // The node on the rank's own columns.
  void apart(Node out, const std::vector<Shard>& results) {
    for (size_t i = 0; i < results.size(); ++i) out.out[i] = result(out.out[i], results[i]);
    graph_.nodes.push_back(std::move(out));
  }

  void linear(const Node& node) {
    const Shard shard = shard_of(node.in[0]);
    // Weights of a node may be cut in different ways; each kind becomes a node of its own.
    std::vector<size_t> plain;
    for (size_t i = 0; i < node.weight.size(); ++i) {
      const Weight& w = in_.weights[size_t(node.weight[i])];
      if (w.role == TENON_ROLE_ROW && !shard.is_whole() && parallel::cut(axis(w, true), options_.parts) == shard && sliced_linear(node, i)) continue;
      plain.push_back(i);
    }
    if (plain.empty()) return;
    Node out = node;
    out.in = {whole(node.in[0])}, out.weight.clear(), out.out.clear();
    for (const size_t i : plain) {
      const Weight& w = in_.weights[size_t(node.weight[i])];
      Shard rows;
      if (w.role == TENON_ROLE_COLUMN) rows = parallel::cut(axis(w, false), options_.parts);
      if (w.role == TENON_ROLE_VOCAB) rows = cut_vocabulary(w);
      out.weight.push_back(rows.is_whole() ? weight(node.weight[i]) : weight(node.weight[i], own_of(rows)));
      out.out.push_back(result(node.out[i], rows));
    }
    graph_.nodes.push_back(std::move(out));
  }

  // Parts of a rank among all parts: the first, and the one behind the last.
  std::pair<uint32_t, uint32_t> parts_of(uint32_t rank, uint32_t n_ranks) const {
    const uint32_t share = options_.parts / n_ranks;
    return {rank * share, (rank + 1) * share};
  }
  std::pair<uint32_t, uint32_t> own_parts() const { return parts_of(options_.rank, options_.n_ranks); }

  // One product a part, over the part's columns, and their sum. False where a part's columns have no view.
  bool sliced_linear(const Node& node, size_t i) {
    const Shard shard = shard_of(node.in[0]);
    const auto x = own(node.in[0]);
    if (!x || in_.values[size_t(node.in[0])].is_view()) return false;  // a view of a view does not exist
    const auto view = [&](uint32_t part, uint32_t rank, uint32_t n) { return as_view(shard.of_rank(rank, n), shard.parts[part]); };
    const bool all = for_all_ranks([&](uint32_t rank, uint32_t n) {
      for (uint32_t p = parts_of(rank, n).first; p < parts_of(rank, n).second; ++p)
        if (!view(p, rank, n)) return false;
      return true;
    });
    if (!all) return false;
    std::vector<int32_t> views;
    for (uint32_t p = own_parts().first; p < own_parts().second; ++p)
      views.push_back(side_by_side(viewed(*x, *view(p, options_.rank, options_.n_ranks), graph_.values[size_t(*x)])));
    std::vector<int32_t> sums;
    for (size_t k = 0; k < views.size(); ++k) {
      Node out = node;
      out.in = {views[k]};
      out.weight = {weight(node.weight[i], {}, shard.parts[own_parts().first + k])};
      out.out = {sums.emplace_back(add_value(in_.values[size_t(node.out[i])]))};
      graph_.nodes.push_back(std::move(out));
    }
    fold(node.out[i], sums);
    return true;
  }

  // A view's columns without gaps: whether a kernel takes strided views must not decide about a part's bits.
  int32_t side_by_side(int32_t view) {
    const Value& value = graph_.values[size_t(view)];
    if (value.groups == 1) return view;
    Node node;
    node.op = TENON_OP_SCALE, node.layer = layer_, node.name = name_;
    set_attr(node, tenon_scale_attr{sizeof(tenon_scale_attr), 1.0f});
    Value out;
    out.encoding = value.encoding, out.domain = value.domain, out.cols = value.cols;
    node.in = {view}, node.out = {add_value(out)};
    const int32_t id = node.out[0];
    graph_.nodes.push_back(std::move(node));
    return id;
  }

  // The inner axis of the experts is cut; each part is summed over the chosen experts, then the parts are.
  void expert_ffn(const Node& node) {
    Weight inner = in_.weights[size_t(node.weight[2])];
    const Alignment gate = alignment_(in_.weights[size_t(node.weight[0])]), up = alignment_(in_.weights[size_t(node.weight[1])]);
    Axis columns = axis(inner, true);
    if (std::max(gate.rows, up.rows) > columns.align) columns.align = std::max(gate.rows, up.rows), columns.align_why = gate.why;
    const Shard shard = parallel::cut(columns, options_.parts);
    std::vector<int32_t> in, sums;
    for (const int32_t id : node.in) in.push_back(whole(id));
    for (uint32_t p = own_parts().first; p < own_parts().second; ++p) {
      Node out = node;
      out.in = in;
      out.weight = {weight(node.weight[0], shard.parts[p]), weight(node.weight[1], shard.parts[p]), weight(node.weight[2], {}, shard.parts[p])};
      out.out = {sums.emplace_back(add_value(in_.values[size_t(node.out[0])]))};
      graph_.nodes.push_back(std::move(out));
    }
    fold(node.out[0], sums);
  }

  // A vector weight beside a value of `shard`: its own columns, or all where it is not of that width.
  int32_t beside(int32_t old, int64_t cols, const Shard& shard) {
    const Weight& w = in_.weights[size_t(old)];
    if (w.rows * w.cols != cols) return weight(old);
    return w.rows == 1 ? weight(old, {}, own_of(shard)) : weight(old, own_of(shard));
  }

  bool elementwise(const Node& node) {
    const Shard shard = shard_of(node.in[0]);
    if (shard.is_whole()) return false;
    Node out = node;
    for (int32_t& id : out.in) {
      if (shard_of(id) != shard) return false;
      const auto mine = own(id);
      if (!mine) return false;
      id = *mine;
    }
    for (int32_t& id : out.weight) id = beside(id, in_.values[size_t(node.in[0])].cols, shard);
    apart(std::move(out), {shard});
    return true;
  }

  // Works on groups of columns, none of which may be cut: a norm's statistics, a rotary head. 0: on the whole row.
  bool by_groups(const Node& node, int64_t group) {
    const Shard shard = shard_of(node.in[0]);
    const auto x = shard.is_whole() || !group || !in_units(shard, group) ? std::nullopt : own(node.in[0]);
    if (!x) return false;
    Node out = node;
    out.in = {*x};
    for (int32_t& id : out.weight) id = weight(id);
    apart(std::move(out), {shard});
    return true;
  }

  bool gate(const Node& node) {
    const Shard shard = shard_of(node.in[0]), gates = shard_of(node.in[1]);
    if (shard.is_whole() || gates.is_whole()) return false;
    const int64_t group = in_.values[size_t(node.in[0])].cols / in_.values[size_t(node.in[1])].cols;
    const auto units = in_units(shard, group);
    const auto x = own(node.in[0]), g = own(node.in[1]);
    if (!units || *units != gates || !x || !g) return false;
    Node out = node;
    out.in = {*x, *g};
    apart(std::move(out), {shard});
    return true;
  }

  bool kv_write(const Node& node) {
    auto attr = node.attr_as<tenon_kv_write_attr>();
    const Shard k = shard_of(node.in[0]), v = shard_of(node.in[1]);
    if (k.is_whole() || v.is_whole()) return false;
    const auto heads = in_units(k, attr.head_dim), value_heads = in_units(v, attr.head_dim_v);
    const auto own_k = own(node.in[0]), own_v = own(node.in[1]);
    if (!heads || !value_heads || *heads != *value_heads || !own_k || !own_v) return false;
    attr.kv_heads = uint32_t(length(own_of(*heads)));
    Node out = node;
    set_attr(out, attr);
    out.in = {*own_k, *own_v};
    Store store = in_.stores[size_t(node.store[0])];
    store.heads = attr.kv_heads;
    store.cols_k = int64_t(attr.kv_heads) * attr.head_dim, store.cols_v = int64_t(attr.kv_heads) * attr.head_dim_v;
    store_shards_[node.store[0]] = *heads;
    out.store = {add_store(node.store[0], store)};
    graph_.nodes.push_back(std::move(out));
    return true;
  }

  // Whether on every rank the i-th query head it has reads the K/V head that it has to.
  bool heads_meet(const Shard& heads, const Shard& kv_heads, int64_t group) const {
    return for_all_ranks([&](uint32_t rank, uint32_t n) {
      const auto q = listed(heads.of_rank(rank, n)), kv = listed(kv_heads.of_rank(rank, n));
      if (q.empty() || kv.empty() || q.size() % kv.size()) return false;
      for (size_t i = 0; i < q.size(); ++i)
        if (kv[i / (q.size() / kv.size())] != q[i] / group) return false;
      return true;
    });
  }

  bool attention(const Node& node) {
    auto attr = node.attr_as<tenon_attention_attr>();
    const Shard shard = shard_of(node.in[0]);
    const auto store = store_shards_.find(node.store[0]);
    if (shard.is_whole() || store == store_shards_.end() || store->second.is_whole()) return false;
    const auto heads = in_units(shard, attr.head_dim);
    const auto q = own(node.in[0]);
    if (!heads || !q || !heads_meet(*heads, store->second, attr.heads / attr.kv_heads))
      throw Error(ErrorKind::kUsage, fmt::format("{}: {} query heads over {} K/V heads cannot be cut in {}", node.name, attr.heads, attr.kv_heads,
                                                 options_.n_ranks));
    attr.heads = uint32_t(length(own_of(*heads))), attr.kv_heads = uint32_t(length(own_of(store->second)));
    Node out = node;
    set_attr(out, attr);
    out.in = {*q}, out.store = {stores_.at(node.store[0])};
    apart(std::move(out), {times(*heads, attr.head_dim_v)});
    return true;
  }

  bool short_conv(const Node& node) {
    const Shard shard = shard_of(node.in[0]);
    const auto x = shard.is_whole() ? std::nullopt : own(node.in[0]);
    if (!x) return false;
    Node out = node;
    out.in = {*x}, out.weight = {weight(node.weight[0], own_of(shard))};
    Store store = in_.stores[size_t(node.store[0])];
    store.cols_k = store.tape_cols = length(own_of(shard));
    out.store = {add_store(node.store[0], store)};
    store_shards_[node.store[0]] = shard;
    apart(std::move(out), {shard});
    return true;
  }

  bool gated_delta_rule(const Node& node) {
    auto attr = node.attr_as<tenon_gated_delta_rule_attr>();
    const std::array<int64_t, 5> widths = {attr.key_dim, attr.key_dim, attr.value_dim, 1, 1};
    std::array<Shard, 5> heads;
    Node out = node;
    for (size_t i = 0; i < widths.size(); ++i) {
      const Shard shard = shard_of(node.in[i]);
      const auto units = shard.is_whole() ? std::nullopt : in_units(shard, widths[i]);
      const auto x = units ? own(node.in[i]) : std::nullopt;
      if (!x) return false;
      heads[i] = *units, out.in[i] = *x;
    }
    if (heads[0] != heads[1] || heads[2] != heads[3] || heads[2] != heads[4] || !delta_heads_meet(heads[0], heads[2], attr)) return false;
    for (int32_t& id : out.weight) id = beside(id, attr.value_heads, heads[2]);
    attr.key_heads = uint32_t(length(own_of(heads[0]))), attr.value_heads = uint32_t(length(own_of(heads[2])));
    set_attr(out, attr);
    Store store = in_.stores[size_t(node.store[0])];
    const int64_t nk = attr.key_heads, nv = attr.value_heads;
    store.heads = attr.value_heads, store.cols_k = nv * attr.key_dim;
    store.tape_cols = nk * attr.key_dim + nv * attr.value_dim + 2 * nv;
    out.store = {add_store(node.store[0], store)};
    store_shards_[node.store[0]] = heads[2];
    apart(std::move(out), {times(heads[2], attr.value_dim)});
    return true;
  }

  bool delta_heads_meet(const Shard& key_heads, const Shard& value_heads, const tenon_gated_delta_rule_attr& attr) const {
    const auto key_of = [&](size_t i, size_t nk, size_t nv) { return attr.head_map == TENON_HEAD_MAP_MOD ? i % nk : i / (nv / nk); };
    return for_all_ranks([&](uint32_t rank, uint32_t n) {
      const auto k = listed(key_heads.of_rank(rank, n)), v = listed(value_heads.of_rank(rank, n));
      if (k.empty() || v.empty() || v.size() % k.size()) return false;
      for (size_t i = 0; i < v.size(); ++i)
        if (k[key_of(i, k.size(), v.size())] != int64_t(key_of(size_t(v[i]), attr.key_heads, attr.value_heads))) return false;
      return true;
    });
  }

  const Graph& in_;
  const CutOptions& options_;
  const AlignmentOf& alignment_;
  std::vector<Held> held_;
  std::map<std::tuple<int32_t, int64_t, int64_t, int64_t, int64_t>, int32_t> views_;
  std::map<std::tuple<int32_t, Ranges, Ranges>, int32_t> weights_;
  std::map<int32_t, int32_t> stores_;
  std::map<int32_t, Shard> store_shards_;  // paged: K/V heads; conv: channels; recurrent: value heads
  CutGraph out_;
  Graph& graph_ = out_.graph;
  uint32_t layer_ = graph::kNoLayer;
  std::string name_;
};

}  // namespace

CutGraph cut_graph(const Graph& graph, const CutOptions& options, const AlignmentOf& alignment) {
  if (!options.n_ranks || options.rank >= options.n_ranks || !options.parts || options.parts % options.n_ranks)
    throw Error(ErrorKind::kUsage, fmt::format("{} parts of a sum cannot be dealt to {} ranks", options.parts, options.n_ranks));
  return Cutter(graph, options, alignment).run();
}

}  // namespace tenon::parallel
