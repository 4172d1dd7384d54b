// shard.hpp: which part of an axis each rank has: columns of a value, rows or columns of a weight.
#pragma once

#include "graph/graph.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::parallel {

using graph::Range;
using graph::Ranges;
int64_t length(const Ranges& ranges);
// Adds [begin, end) behind what is there; ranges that touch become one.
void append(Ranges& ranges, int64_t begin, int64_t end);
// Where element `at` of the axis lies among those of `ranges`; -1 = in none.
int64_t position(const Ranges& ranges, int64_t at);
// The same elements, counted in pieces of `unit`; nullopt where a range cuts through one.
std::optional<Ranges> in_units(const Ranges& ranges, int64_t unit);
Ranges times(const Ranges& units, int64_t unit);

// An axis cut into parts, which ranks own in order: of n parts and W ranks, rank r has parts r × n/W … (r + 1) × n/W - 1.
// Parts overlap only where units were repeated. No parts: every rank has the whole axis.
struct Shard {
  std::vector<Ranges> parts;
  bool is_whole() const { return parts.empty(); }
  bool operator==(const Shard&) const = default;
  // What one rank has, each element once.
  Ranges of_rank(uint32_t rank, uint32_t n_ranks) const;
};

// How an axis may be cut: what its weight declares, and what the weight's dtype allows.
struct Axis {
  std::string name;                        // for messages: "weight blk.0.ffn_down.weight, columns"
  int64_t size = 0;
  std::span<const tenon_segment> segments; // none: one of unit `align`
  int64_t align = 1;                       // elements that must stay together, such as a block's columns
  std::string align_why;                   // "a block of q4_k"
  bool repeat_if_short = false;
};
// Part p of n owns unit u of a segment iff (u mod period) × n / period == p. Throws Error(kUsage) with names, numbers and
// the rule where a segment's units do not divide among the parts, or where a border would lie inside `align`.
Shard cut(const Axis& axis, uint32_t n_parts);

// The shard that a view of `cols` columns in `groups` groups, from `col0` on and `group_step` apart, sees of an axis.
Shard seen_through(const Shard& shard, int64_t col0, int64_t cols, int64_t groups, int64_t group_step);

// A view of a rank's own columns of a value.
struct Strided {
  int64_t col0 = 0, cols = 0, groups = 1, group_step = 0;
};
// `wanted` elements of an axis as a view of those that `owned` keeps side by side; nullopt where none exists.
std::optional<Strided> as_view(const Ranges& owned, const Ranges& wanted);

}  // namespace tenon::parallel
