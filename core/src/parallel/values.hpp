// values.hpp: which ranks have which columns of every value, while a graph is cut; and the exchanges that bring them what they
// lack.
#pragma once

#include "cut.hpp"
#include "graph/graph.hpp"
#include "shard.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon::parallel {

// The walk goes over all nodes on every rank, and every rank keeps the same account of all ranks, so that they decide alike.
// A rank adds values and nodes to its own graph where it is of a node's group: elsewhere the numbers of new values are -1.
class Values {
 public:
  Values(const graph::Graph& in, const CutOptions& options, CutGraph& out);

  // The node that comes: `section` is its layer, or the layer that it goes with.
  void turn_to(const Group& group, uint32_t section, uint32_t layer, std::string name);
  // Nodes from now on are for these alone.
  void turn_to(graph::Purpose purpose) { purpose_ = purpose; }

  const Group& group() const { return group_; }
  uint32_t n_ranks() const { return uint32_t(group_.size()); }
  bool is_mine() const { return at_ >= 0; }
  uint32_t place() const { return uint32_t(at_); }  // of this rank in the group that it is of
  uint32_t parts() const { return options_.plan.parts ? options_.plan.parts : n_ranks(); }
  // Whether ranks may begin sums with what they have, instead of adding in order.
  bool sums_are_fast() const { return options_.fast_sums; }
  // Parts of this rank among all parts of a sum: the first, and the one behind the last.
  std::pair<uint32_t, uint32_t> own_parts() const;
  Ranges own_of(const Shard& shard) const { return is_mine() ? shard.of_rank(uint32_t(at_), n_ranks()) : Ranges(); }

  // Whether holds(rank, n) for every rank of every number n of ranks that the parts can be dealt to. What a graph looks like is
  // decided by this alone, so that the bits depend on the parts and not on the ranks.
  template <typename Holds>
  bool for_all_ranks(Holds&& holds) const {
    for (uint32_t n = 1; n <= parts(); ++n)
      for (uint32_t rank = 0; parts() % n == 0 && rank < n; ++rank)
        if (!holds(rank, n)) return false;
    return true;
  }

  // An input of the step, which every rank is given.
  int32_t input(int32_t old) { return held(old).own; }
  // How an old value is cut over the group. Values of another section are whole, on whatever ranks.
  Shard shard_of(int32_t old);
  // All columns of an old value, brought to every rank of the group.
  int32_t whole(int32_t old);
  // The rank's own columns; nullopt where some rank has no view that shows them.
  std::optional<int32_t> own(int32_t old);
  // One part's columns of a rank's own value, side by side; where every rank has views that show its parts.
  bool has_parts(const Shard& shard) const;
  int32_t part(int32_t own, const Shard& shard, uint32_t number);

  // A value of the new graph with those columns of an old value that this rank has; where somebody has all, the first of them has
  // them and the others none (-1).
  std::pair<int32_t, Ranges> own_columns(int32_t old);

  // A node's result: `shard` of the old value, or all of it.
  int32_t result(int32_t old, const Shard& shard);
  // The sum of all ranks' parts, n_parts together, the same on each rank: in ascending order, or as the options say.
  void fold(int32_t old, const std::vector<int32_t>& own_parts, uint32_t n_parts);
  // The same where the node is of the caller's making: `own` is this rank's new value.
  void computed(int32_t old, const Shard& shard, int32_t own);
  // All columns on every rank of the group, which is the value's home from now on.
  void gather(int32_t old);

  int32_t add_value(const graph::Value& value);
  void add_node(graph::Node node);
  void add_exchange(uint32_t op, Exchange exchange, std::vector<int32_t> in, std::vector<int32_t> out);

 private:
  // What there is of a value of the old graph that is no view.
  struct Held {
    Group home;           // those who computed it
    uint32_t section = 0;
    Shard shard;          // over the home
    int32_t own = -1, whole = -1;  // this rank's
    std::vector<bool> has_whole;   // by rank
  };

  Held& held(int32_t old);
  bool is_home(const Held& it) const { return it.section == section_ && it.home == group_; }
  void bring(Held& it, const graph::Value& value);
  int32_t added(const graph::Value& like, const std::vector<int32_t>& all);
  int32_t summed(const graph::Value& like, const std::vector<int32_t>& own_parts, uint32_t n_parts);
  int32_t viewed(int32_t base, const Strided& view, const graph::Value& like);
  int32_t side_by_side(int32_t view);
  std::pair<uint32_t, uint32_t> parts_of(uint32_t rank, uint32_t n_ranks) const;

  const graph::Graph& in_;
  const CutOptions& options_;
  CutGraph& out_;
  graph::Graph& graph_;
  std::vector<Held> held_;
  std::map<std::tuple<int32_t, int64_t, int64_t, int64_t, int64_t>, int32_t> views_;
  Group group_;
  int32_t at_ = -1;  // this rank's place in it; -1 = in none
  uint32_t section_ = 0, layer_ = graph::kNoLayer;
  graph::Purpose purpose_ = graph::Purpose::kAll;
  std::string name_;
};

}  // namespace tenon::parallel
