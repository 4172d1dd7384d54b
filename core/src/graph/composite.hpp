// composite.hpp: composites as text over plain ops, and the matcher that finds them in a list of nodes.
//
//   a = add(x, r); n = norm(a; w) -> a, n
//
// Statements `outputs = op(inputs; weights; stores)` separated by semicolons outside brackets, then `->` and the outputs of
// the group. A name that no statement gives is an operand of the group, in the order of first appearance.
#pragma once

#include "graph.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::graph {

struct Pattern {
  struct Statement {
    uint32_t op;
    std::vector<std::string> out, in, weight, store;
  };
  std::vector<Statement> statements;
  std::vector<std::string> in, weight, store, out;  // of the group
};

// Throws std::invalid_argument saying what is wrong and where.
Pattern parse_pattern(std::string_view text);

// The nodes of `nodes` that form the pattern with its first statement at `first`, in statement order; nullopt if it does not
// fit there. A statement that shares no value and no store with those before it stands for a node of the same layer. A value that the group does not give out must have no reader outside; every other node between the first and
// the last must neither read the group's values nor give it operands. `is_kept` says that a value is needed elsewhere
// (taps, logits).
struct Match {
  std::vector<size_t> nodes;
  Node group;  // op COMPOSITE, operands in the pattern's order
};
std::optional<Match> match_pattern(const Pattern& pattern, std::span<const Node> nodes, size_t first, const Graph& graph,
                                   bool (*is_kept)(const void*, int32_t), const void* context);

}  // namespace tenon::graph
