#include "cut_experts.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace tenon::parallel {
namespace {

using graph::Node;
using graph::Value;
using graph::Weight;

// Columns of each rank: as many as go evenly, in vectors of 16 where there are enough.
Shard even_columns(int64_t cols, uint32_t n_ranks, const std::string& name) {
  if (cols < int64_t(n_ranks))
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} columns cannot be shared by {} ranks", name, cols, n_ranks));
  constexpr int64_t kVector = 16;
  const int64_t unit = cols >= kVector * n_ranks ? kVector : 1, units = (cols + unit - 1) / unit;
  Shard out;
  for (int64_t r = 0; r < int64_t(n_ranks); ++r)
    out.parts.push_back({{units * r / n_ranks * unit, std::min(units * (r + 1) / n_ranks * unit, cols)}});
  return out;
}

class ExpertCutter {
 public:
  ExpertCutter(const graph::Graph& in, const Node& node, const Plan& plan, const Plan::Layer& layer, Values& values, Shares& shares)
      : in_(in), node_(node), plan_(plan), owners_(layer.owners), n_ranks_(uint32_t(layer.experts.size())), cuts_(n_ranks_ / owners_),
        parts_(plan.expert_parts ? plan.expert_parts : cuts_), values_(values), shares_(shares) {
    check();
    if (parts_ > 1) inner_ = parallel::cut(inner_axis(), parts_);
  }

  void run() {
    for (const int32_t id : node_.in) inputs_.push_back(values_.whole(id));
    if (owners_ > 1 && !values_.sums_are_fast()) return fold_slots();
    std::vector<int32_t> sums;
    for (uint32_t p = first_part(); p < end_part(); ++p) sums.push_back(product(p, 0));
    values_.fold(node_.out[0], sums, parts_);
  }

 private:
  const Weight& weight(size_t i) const { return in_.weights[size_t(node_.weight[i])]; }
  uint32_t place() const { return values_.is_mine() ? values_.place() : 0; }
  uint32_t owner() const { return place() / cuts_; }
  // Of the rank's own parts; none on a rank that has no experts of this layer.
  uint32_t first_part() const { return place() % cuts_ * (parts_ / cuts_); }
  uint32_t end_part() const { return values_.is_mine() ? first_part() + parts_ / cuts_ : first_part(); }

  void check() const {
    const uint32_t n = weight(0).n_expert;
    const auto refuse = [&](const std::string& rule) {
      throw Error(ErrorKind::kUsage, fmt::format("weight {}: {} experts cannot be dealt to {} owners: {}", weight(0).name, n, owners_, rule));
    };
    if (owners_ > n) refuse("there are more owners than experts");
    if (n % owners_) refuse(fmt::format("each has as many, and {} would be left over", n % owners_));
    if (n_ranks_ % owners_)
      throw Error(ErrorKind::kUsage, fmt::format("{}: {} ranks cannot be dealt to {} owners of experts", node_.name, n_ranks_, owners_));
    if (parts_ % cuts_)
      throw Error(ErrorKind::kUsage, fmt::format("weight {}: {} parts of a sum inside an expert cannot be dealt to the {} ranks of an owner",
                                                 weight(2).name, parts_, cuts_));
  }

  Axis inner_axis() const {
    const Alignment gate = shares_.alignment(node_.weight[0]), up = shares_.alignment(node_.weight[1]);
    Axis out = shares_.axis(weight(2), true);
    if (std::max(gate.rows, up.rows) > out.align) out.align = std::max(gate.rows, up.rows), out.align_why = gate.why;
    return out;
  }

  // One part of every expert that this rank owns: the sum of a row's slots, or with `combine` the slots.
  int32_t product(uint32_t part, uint32_t combine) {
    const Ranges experts = owners_ > 1 ? owned_experts(weight(0).n_expert, owners_, owner(), plan_.interleave_experts) : Ranges();
    const Ranges inner = inner_.is_whole() ? Ranges() : inner_.parts[part];
    tenon_expert_ffn_attr attr = node_.attr_as<tenon_expert_ffn_attr>();
    attr.combine = combine;
    Node out = node_;
    std::memcpy(out.attr.data(), &attr, sizeof attr);
    out.in = inputs_;
    out.weight = {shares_.weight(node_.weight[0], inner, {}, experts), shares_.weight(node_.weight[1], inner, {}, experts),
                  shares_.weight(node_.weight[2], {}, inner, experts)};
    const int32_t id = add_value(combine ? width() * top_k() : width());
    out.out = {id};
    values_.add_node(std::move(out));
    return id;
  }

  int64_t width() const { return in_.values[size_t(node_.out[0])].cols; }
  int64_t top_k() const { return node_.attr_as<tenon_expert_ffn_attr>().top_k; }
  int32_t add_value(int64_t cols) {
    Value value = in_.values[size_t(node_.out[0])];
    value.cols = cols;
    return values_.add_value(value);
  }

  void fold_slots() {
    std::vector<int32_t> own;
    for (uint32_t p = first_part(); p < end_part(); ++p) own.push_back(product(p, 1));
    const Shard columns = even_columns(width(), n_ranks_, node_.name);
    const int64_t cols = values_.is_mine() ? length(values_.own_of(columns)) : 0;
    std::vector<int32_t> slots;  // this rank's columns of them: part by part, and of each part owner by owner
    for (uint32_t i = 0; i < parts_ * owners_; ++i) slots.push_back(add_value(cols * top_k()));
    Exchange exchange;
    exchange.kind = Exchange::Kind::kSlots, exchange.ranks = values_.group();
    exchange.owners = owners_, exchange.slots = uint32_t(top_k());
    for (const Ranges& part : columns.parts) exchange.columns.push_back(part);
    if (values_.is_mine()) values_.add_exchange(TENON_OP_ALL_TO_ALL, std::move(exchange), own, slots);
    std::vector<int32_t> sums;
    for (uint32_t p = 0; p < parts_; ++p) {
      // All owners but one have zeros in a slot.
      const int32_t all = added({slots.begin() + p * owners_, slots.begin() + (p + 1) * owners_}, cols * top_k());
      sums.push_back(add_value(cols));
      Node fold;
      fold.op = TENON_OP_FOLD_SLOTS, fold.in = {all, inputs_[2]}, fold.out = {sums.back()};
      values_.add_node(std::move(fold));
    }
    values_.computed(node_.out[0], columns, added(sums, cols));
  }

  // The sum in ascending order.
  int32_t added(const std::vector<int32_t>& values, int64_t cols) {
    int32_t sum = values[0];
    for (size_t i = 1; i < values.size(); ++i) {
      Node node;
      node.op = TENON_OP_ADD, node.in = {sum, values[i]}, node.out = {sum = add_value(cols)};
      values_.add_node(std::move(node));
    }
    return sum;
  }

  const graph::Graph& in_;
  const Node& node_;
  const Plan& plan_;
  const uint32_t owners_, n_ranks_, cuts_, parts_;
  Values& values_;
  Shares& shares_;
  Shard inner_;  // over the parts; whole where there is one
  std::vector<int32_t> inputs_;
};

}  // namespace

Ranges owned_experts(int64_t n_expert, uint32_t n_owners, uint32_t owner, bool interleaved) {
  const int64_t share = n_expert / n_owners;
  if (!interleaved) return {{owner * share, (owner + 1) * share}};
  Ranges out;
  for (int64_t i = 0; i < share; ++i) append(out, owner + i * n_owners, owner + i * n_owners + 1);
  return out;
}

void cut_experts(const graph::Graph& in, const Node& node, uint32_t section, const Plan& plan, const Plan::Layer& layer, Values& values,
                 Shares& shares) {
  values.turn_to(layer.experts, section, node.layer, node.name);
  ExpertCutter(in, node, plan, layer, values, shares).run();
  if (layer.owners == 1) return;
  values.turn_to(layer.tensor, section, node.layer, node.name);
  values.gather(node.out[0]);
}

void check_experts(const graph::Graph& graph, const PlanOptions& options) {
  constexpr const char* kOption = "--expert-parallel";
  std::set<uint32_t> with_experts;
  for (const Node& node : graph.nodes)
    if (node.op == TENON_OP_EXPERT_FFN) with_experts.insert(node.layer);
  if (options.experts > 1 && with_experts.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{} {}: the model has no experts", kOption, options.experts));
  for (const LayerRanks& it : parse_layer_ranks(kOption, options.expert_layers, graph.n_layers, false))
    if (it.layer < graph.n_layers && !with_experts.contains(it.layer))
      throw Error(ErrorKind::kUsage, fmt::format("{}: layer {} has no experts", kOption, it.layer));
}

}  // namespace tenon::parallel
