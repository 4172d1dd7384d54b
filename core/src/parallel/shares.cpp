#include "shares.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tenon::parallel {
namespace {

using graph::Store;
using graph::Weight;

std::vector<float> kept(const Weight& weight, Ranges rows, Ranges cols) {
  if (weight.divisor >= 0) throw Error(ErrorKind::kUsage, fmt::format("weight {}: a divided constant cannot be cut", weight.name));
  if (rows.empty()) rows = {{0, weight.rows}};
  if (cols.empty()) cols = {{0, weight.cols}};
  std::vector<float> out;
  for (const int64_t row : listed(rows))
    for (const int64_t col : listed(cols)) out.push_back(weight.constant[size_t(row * weight.cols + col)]);
  return out;
}

}  // namespace

std::vector<int64_t> listed(const Ranges& ranges) {
  std::vector<int64_t> out;
  for (const Range& range : ranges)
    for (int64_t i = range.begin; i < range.end; ++i) out.push_back(i);
  return out;
}

Shares::Shares(const graph::Graph& in, const Values& values, const AlignmentOf& alignment, const CutsBefore* before, CutGraph& out)
    : in_(in), values_(values), alignment_(alignment), cut_(out), out_(out.graph) {
  out_.stores = in.stores;
  for (Store& store : out_.stores) store.is_absent = true;
  if (!before) return;
  out_.weights = before->last.graph.weights, cut_.weight_shares = before->last.weight_shares;
  for (size_t i = 0; i < out_.stores.size(); ++i) {
    Store& store = out_.stores[i];
    const Store& own = in.stores[i];
    const auto home = before->main.store_homes.find(own.target);
    if (home == before->main.store_homes.end()) continue;
    cut_.store_homes[int32_t(i)] = home->second;
    store = before->main.graph.stores[size_t(own.target)];
    store.target = own.target, store.layer = own.layer;
  }
}

int32_t Shares::weight(int32_t old, const Ranges& rows, const Ranges& cols, const Ranges& experts) {
  if (!values_.is_mine()) return -1;
  const auto known = cut_.weight_shares.find({old, rows, cols, experts});
  if (known != cut_.weight_shares.end()) return known->second;
  Weight out = in_.weights[size_t(old)];
  if (out.divisor >= 0) out.divisor = weight(out.divisor);
  if (out.is_constant && (!rows.empty() || !cols.empty())) out.constant = kept(out, rows, cols);
  if (!out.is_constant && !rows.empty()) out.file_rows = out.rows, out.kept_rows = rows;
  if (!out.is_constant && !cols.empty()) out.file_cols = out.cols, out.kept_cols = cols;
  if (!rows.empty()) out.rows = length(rows);
  if (!cols.empty()) out.cols = length(cols);
  out.kept_experts = experts;
  out_.weights.push_back(std::move(out));
  return cut_.weight_shares[{old, rows, cols, experts}] = int32_t(out_.weights.size()) - 1;
}

int32_t Shares::beside(int32_t old, int64_t cols, const Shard& shard) {
  const Weight& w = in_.weights[size_t(old)];
  if (w.rows * w.cols != cols) return weight(old);
  const Ranges own = values_.own_of(shard);
  return w.rows == 1 ? weight(old, {}, own) : weight(old, own);
}

Axis Shares::axis(const Weight& weight, bool columns) const {
  const Alignment align = alignment_(weight);
  Axis out;
  out.name = fmt::format("weight {}, {}", weight.name, columns ? "columns" : "rows");
  out.size = columns ? weight.cols : weight.rows;
  out.segments = weight.segments;
  out.align = columns ? align.cols : align.rows, out.align_why = align.why;
  out.repeat_if_short = weight.flags & TENON_DECL_REPEAT_IF_SHORT;
  return out;
}

Shard Shares::cut(const Axis& axis) const { return values_.parts() == 1 ? Shard() : parallel::cut(axis, values_.parts()); }

Shard Shares::cut_vocabulary(const Weight& weight) const {
  const int64_t parts = values_.parts(), align = alignment_(weight).rows, units = (weight.rows + align - 1) / align;
  if (units < parts) throw Error(ErrorKind::kUsage, fmt::format("weight {}: {} rows cannot be cut in {}", weight.name, weight.rows, parts));
  Shard out;
  for (int64_t p = 0; parts > 1 && p < parts; ++p)
    out.parts.push_back({{units * p / parts * align, std::min(units * (p + 1) / parts * align, weight.rows)}});
  return out;
}

StoreHome& Shares::home(int32_t old, const graph::Node& node) {
  const auto [it, fresh] = cut_.store_homes.try_emplace(old, StoreHome{values_.group(), node.layer, {}});
  if (!fresh && it->second.group != values_.group())
    throw Error(ErrorKind::kUsage, fmt::format("{}: it reads the keys and values of layer {}, which ranks {} have, but ranks {} have layer {}: layers that "
                                               "share them must be on the same ranks", node.name, it->second.layer,
                                               fmt::join(it->second.group, ", "), fmt::join(values_.group(), ", "), node.layer));
  return it->second;
}

void Shares::store(int32_t old, const graph::Node& node, Store share, const Shard& shard) {
  home(old, node).shard = shard;
  if (!values_.is_mine()) return;
  const Store& all = in_.stores[size_t(old)];
  share.kept = values_.own_of(shard), share.all_heads = all.heads, share.all_cols_k = all.cols_k, share.all_cols_v = all.cols_v;
  out_.stores[size_t(old)] = std::move(share);
}

void Shares::whole_store(int32_t old, const graph::Node& node) {
  if (!home(old, node).shard.is_whole())
    throw Error(ErrorKind::kUsage, fmt::format("{}: it reads a store whose heads are cut over the ranks, by heads that are not", node.name));
  if (values_.is_mine()) out_.stores[size_t(old)] = in_.stores[size_t(old)];
}

Shard Shares::store_shard(int32_t old, const graph::Node& node) { return cut_.store_homes.contains(old) ? home(old, node).shard : Shard(); }

}  // namespace tenon::parallel
