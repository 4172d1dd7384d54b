// shares.hpp: a rank's shares of a model's weights and stores, while a graph is cut.
#pragma once

#include "cut.hpp"
#include "values.hpp"

#include <cstdint>
#include <vector>

namespace tenon::parallel {

// As with values, every rank asks for all shares, and gets those of the groups that it is of: a weight that no node of this rank
// uses is not in its graph, and a store of none is there without memory.
class Shares {
 public:
  // A draft's stores of the model are as the model's cut has them.
  Shares(const graph::Graph& in, const Values& values, const AlignmentOf& alignment, const CutsBefore* before, CutGraph& out);

  // Rows of a weight and of them columns, of these experts, as a weight of the new graph; empty = all.
  int32_t weight(int32_t old, const Ranges& rows = {}, const Ranges& cols = {}, const Ranges& experts = {});
  // A vector weight beside a value of `cols` columns cut like `shard`: its own columns, or all where it is not of that width.
  int32_t beside(int32_t old, int64_t cols, const Shard& shard);

  // How the plan's parts cut a weight; whole where sums have one part. The vocabulary's parts need not be equal: borders lie where
  // the dtype allows them.
  Axis axis(const graph::Weight& weight, bool columns) const;
  Shard cut(const Axis& axis) const;
  Shard cut_vocabulary(const graph::Weight& weight) const;
  Alignment alignment(int32_t old) const { return alignment_(in_.weights[size_t(old)]); }

  // The group's store, cut by heads or channels; whole: each rank of the group has all of it. Throws Error(kUsage) where nodes of
  // several groups use it, or by heads and whole.
  void store(int32_t old, const graph::Node& node, graph::Store share, const Shard& shard);
  void whole_store(int32_t old, const graph::Node& node);
  // How a store is cut that was written before; whole where it was not. Throws as store().
  Shard store_shard(int32_t old, const graph::Node& node);

 private:
  StoreHome& home(int32_t old, const graph::Node& node);

  const graph::Graph& in_;
  const Values& values_;
  const AlignmentOf& alignment_;
  CutGraph& cut_;
  graph::Graph& out_;
};

// Elements of ranges one by one: heads.
std::vector<int64_t> listed(const Ranges& ranges);

}  // namespace tenon::parallel
