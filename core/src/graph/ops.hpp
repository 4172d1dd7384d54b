// ops.hpp: the table of ops: names, operand counts, type rules, and which inputs a share of the output reads.
#pragma once

#include "graph.hpp"

#include <string>
#include <string_view>

namespace tenon::graph {

// Types of a node's operands, for a rule to check and to fill.
struct Signature {
  std::vector<const Value*> in;
  std::vector<const Weight*> weight;
  std::vector<const Store*> store;
  const void* attr;
  std::vector<Value> out;  // filled by the rule
};

struct OpInfo {
  uint32_t op;
  std::string_view name;
  uint32_t attr_bytes;  // 0 = no attributes
  uint32_t min_in, max_in, min_weight, max_weight, n_store;
  // "" or what is wrong, for a message that begins with the node's name.
  std::string (*infer)(Signature&);
  // Bit i: a worker that owns a fraction of the output's columns reads only that fraction of input i's columns.
  uint32_t column_local;
  bool row_local;  // row r of the outputs needs row r of the inputs only
};

// Null for an op this build does not know.
const OpInfo* op_info(uint32_t op);
const OpInfo* op_info(std::string_view name);
std::string_view op_name(uint32_t op);

}  // namespace tenon::graph
