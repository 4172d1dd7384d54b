#include "values.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::parallel {
namespace {

using graph::Node;
using graph::Value;

int32_t place_of(uint32_t rank, const Group& group) {
  const auto it = std::find(group.begin(), group.end(), rank);
  return it == group.end() ? -1 : int32_t(it - group.begin());
}

// Columns of a view as columns of what it views.
Ranges unseen(const Value& view, const Ranges& seen) {
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

template <typename T>
void set_attr(Node& node, const T& attr) {
  node.attr.resize(sizeof attr);
  std::memcpy(node.attr.data(), &attr, sizeof attr);
}

}  // namespace

Values::Values(const graph::Graph& in, const CutOptions& options, CutGraph& out)
    : in_(in), options_(options), out_(out), graph_(out.graph), held_(in.values.size()) {}

void Values::turn_to(const Group& group, uint32_t section, uint32_t layer, std::string name) {
  group_ = group, at_ = place_of(options_.rank, group);
  section_ = section, layer_ = layer, name_ = std::move(name);
}

std::pair<uint32_t, uint32_t> Values::parts_of(uint32_t rank, uint32_t n_ranks) const {
  const uint32_t share = parts() / n_ranks;
  return {rank * share, (rank + 1) * share};
}

std::pair<uint32_t, uint32_t> Values::own_parts() const {
  return is_mine() ? parts_of(uint32_t(at_), n_ranks()) : std::pair<uint32_t, uint32_t>();
}

int32_t Values::add_value(const Value& value) {
  if (!is_mine()) return -1;
  graph_.values.push_back(value);
  return int32_t(graph_.values.size()) - 1;
}

void Values::add_node(Node node) {
  if (!is_mine()) return;
  node.layer = layer_, node.name = name_;
  graph_.nodes.push_back(std::move(node));
}

Values::Held& Values::held(int32_t old) {
  Held& it = held_[size_t(old)];
  if (!it.has_whole.empty()) return it;
  // An input of the step, which every rank is given.
  graph_.values.push_back(in_.values[size_t(old)]);
  it.own = it.whole = int32_t(graph_.values.size()) - 1;
  it.has_whole.assign(options_.plan.n_ranks, true);
  return it;
}

Shard Values::shard_of(int32_t old) {
  const Value& value = in_.values[size_t(old)];
  const Held& it = held(in_.base_of(old));
  if (it.shard.is_whole() || !is_home(it)) return {};
  return value.is_view() ? seen_through(it.shard, value.col0, value.cols, value.groups, value.group_step) : it.shard;
}

int32_t Values::whole(int32_t old) {
  const Value& value = in_.values[size_t(old)];
  if (value.is_view()) return viewed(whole(value.base), {value.col0, value.cols, value.groups, value.group_step}, value);
  Held& it = held(old);
  bring(it, value);
  return is_mine() ? it.whole : -1;
}

void Values::bring(Held& it, const Value& value) {
  Group lack;
  Exchange exchange;
  const bool is_whole_at_home = std::all_of(it.home.begin(), it.home.end(), [&](uint32_t rank) { return it.has_whole[rank]; });
  for (uint32_t i = 0; i < n_ranks(); ++i) {
    if (it.has_whole[group_[i]]) continue;
    lack.push_back(group_[i]);
    if (is_whole_at_home) exchange.moves.push_back({it.home[i % it.home.size()], group_[i]});
  }
  if (lack.empty()) return;
  for (const uint32_t rank : lack) it.has_whole[rank] = true;
  const bool gets = place_of(options_.rank, lack) >= 0;
  const int32_t out = gets ? it.whole = add_value(value) : -1;
  bool gives = false;
  if (is_whole_at_home) {
    exchange.kind = Exchange::Kind::kMove;
    for (const Move& move : exchange.moves) gives = gives || move.from == options_.rank;
  } else {
    exchange.kind = Exchange::Kind::kColumns, exchange.ranks = it.home, exchange.to = lack;
    for (uint32_t i = 0; i < it.home.size(); ++i) exchange.columns.push_back(it.shard.of_rank(i, uint32_t(it.home.size())));
    gives = place_of(options_.rank, it.home) >= 0;
  }
  if (!gives && !gets) return;
  const uint32_t op = !is_whole_at_home ? TENON_OP_ALL_GATHER : gives ? TENON_OP_SEND : TENON_OP_RECV;
  const int32_t given = is_whole_at_home ? it.whole : it.own;
  add_exchange(op, std::move(exchange), gives ? std::vector{given} : std::vector<int32_t>(), gets ? std::vector{out} : std::vector<int32_t>());
}

void Values::add_exchange(uint32_t op, Exchange exchange, std::vector<int32_t> in, std::vector<int32_t> out) {
  Node node;
  node.op = op, node.layer = layer_, node.name = name_, node.purpose = purpose_;
  set_attr(node, ExchangeAttr{sizeof(ExchangeAttr), uint32_t(out_.exchanges.size())});
  node.in = std::move(in), node.out = std::move(out);
  out_.exchanges.push_back(std::move(exchange));
  graph_.nodes.push_back(std::move(node));
}

int32_t Values::viewed(int32_t base, const Strided& view, const Value& like) {
  if (base < 0) return -1;
  const Value& of = graph_.values[size_t(base)];
  if (view.groups == 1 && view.col0 == 0 && view.cols == of.cols) return base;
  const auto [it, fresh] = views_.try_emplace({base, view.col0, view.cols, view.groups, view.group_step}, -1);
  if (fresh) {
    Value out = like;
    out.base = base, out.col0 = view.col0, out.cols = view.cols, out.groups = view.groups, out.group_step = view.group_step;
    graph_.values.push_back(out);
    it->second = int32_t(graph_.values.size()) - 1;
  }
  return it->second;
}

std::optional<int32_t> Values::own(int32_t old) {
  const Value& value = in_.values[size_t(old)];
  const Held& it = held(in_.base_of(old));
  if (it.shard.is_whole() || !is_home(it)) return whole(old);
  if (!value.is_view()) return it.own;
  const Shard seen = shard_of(old);
  const auto view = [&](uint32_t rank, uint32_t n) { return as_view(it.shard.of_rank(rank, n), unseen(value, seen.of_rank(rank, n))); };
  if (!for_all_ranks([&](uint32_t rank, uint32_t n) { return view(rank, n).has_value(); })) return std::nullopt;
  return is_mine() ? viewed(it.own, *view(uint32_t(at_), n_ranks()), value) : -1;
}

bool Values::has_parts(const Shard& shard) const {
  return for_all_ranks([&](uint32_t rank, uint32_t n) {
    for (uint32_t p = parts_of(rank, n).first; p < parts_of(rank, n).second; ++p)
      if (!as_view(shard.of_rank(rank, n), shard.parts[p])) return false;
    return true;
  });
}

int32_t Values::part(int32_t own, const Shard& shard, uint32_t number) {
  return side_by_side(viewed(own, *as_view(own_of(shard), shard.parts[number]), graph_.values[size_t(own)]));
}

// A view's columns without gaps: whether a kernel takes strided views must not decide about a part's bits.
int32_t Values::side_by_side(int32_t view) {
  const Value& value = graph_.values[size_t(view)];
  if (value.groups == 1) return view;
  Node node;
  node.op = TENON_OP_SCALE;
  set_attr(node, tenon_scale_attr{sizeof(tenon_scale_attr), 1.0f});
  Value out;
  out.encoding = value.encoding, out.domain = value.domain, out.cols = value.cols;
  node.in = {view}, node.out = {add_value(out)};
  const int32_t id = node.out[0];
  add_node(std::move(node));
  return id;
}

std::pair<int32_t, Ranges> Values::own_columns(int32_t old) {
  const Held& it = held(old);
  if (const auto first = std::find(it.has_whole.begin(), it.has_whole.end(), true); first != it.has_whole.end()) {
    if (uint32_t(first - it.has_whole.begin()) != options_.rank) return {-1, {}};
    return {it.whole, {{0, in_.values[size_t(old)].cols}}};
  }
  const int32_t at = place_of(options_.rank, it.home);
  if (at < 0) return {-1, {}};
  return {it.own, it.shard.of_rank(uint32_t(at), uint32_t(it.home.size()))};
}

int32_t Values::result(int32_t old, const Shard& shard) {
  Value value = in_.values[size_t(old)];
  Held& it = held_[size_t(old)];
  it.home = group_, it.section = section_, it.shard = shard;
  it.has_whole.assign(options_.plan.n_ranks, false);
  if (!shard.is_whole()) value.cols = length(own_of(shard));
  it.own = add_value(value);
  if (!shard.is_whole() && n_ranks() > 1) return it.own;
  it.whole = it.own;
  for (const uint32_t rank : group_) it.has_whole[rank] = true;
  return it.own;
}

// In order.
int32_t Values::added(const Value& like, const std::vector<int32_t>& all) {
  int32_t sum = all[0];
  for (size_t p = 1; p < all.size(); ++p) {
    Node node;
    node.op = TENON_OP_ADD;
    const int32_t next = add_value(like);
    node.in = {sum, all[p]}, node.out = {next};
    add_node(std::move(node));
    sum = next;
  }
  return sum;
}

int32_t Values::summed(const Value& like, const std::vector<int32_t>& own_parts, uint32_t n_parts) {
  if (n_ranks() == 1) return added(like, own_parts);
  const std::vector<int32_t> own = options_.fast_sums ? std::vector{added(like, own_parts)} : own_parts;
  if (options_.fast_sums && options_.collective_adds && n_ranks() == options_.plan.n_ranks) {
    const int32_t sum = add_value(like);
    add_exchange(TENON_OP_ALL_REDUCE, {Exchange::Kind::kSum, group_, {}, {}, {}}, own, {sum});
    return sum;
  }
  std::vector<int32_t> all;
  for (uint32_t p = 0; p < (options_.fast_sums ? n_ranks() : n_parts); ++p) all.push_back(add_value(like));
  add_exchange(TENON_OP_ALL_GATHER, {Exchange::Kind::kParts, group_, {}, {}, {}}, own, all);
  return added(like, all);
}

void Values::fold(int32_t old, const std::vector<int32_t>& own_parts, uint32_t n_parts) {
  const int32_t sum = is_mine() ? summed(in_.values[size_t(old)], own_parts, n_parts) : -1;
  Held& it = held_[size_t(old)];
  it.home = group_, it.section = section_, it.own = it.whole = sum;
  it.has_whole.assign(options_.plan.n_ranks, false);
  for (const uint32_t rank : group_) it.has_whole[rank] = true;
}

void Values::computed(int32_t old, const Shard& shard, int32_t own) {
  Held& it = held_[size_t(old)];
  it.home = group_, it.section = section_, it.shard = shard, it.own = own;
  it.has_whole.assign(options_.plan.n_ranks, false);
}

void Values::gather(int32_t old) {
  Held& it = held(old);
  bring(it, in_.values[size_t(old)]);
  it.home = group_, it.section = section_, it.shard = {}, it.own = it.whole;
}

}  // namespace tenon::parallel
