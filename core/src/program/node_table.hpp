// node_table.hpp: a graph node as the tenon_node that kernels are offered, with the arrays it points to.
#pragma once

#include "graph/graph.hpp"

#include <tenon/abi.h>

#include <functional>
#include <memory>
#include <vector>

namespace tenon::program {

// How the node's weights and stores look to a kernel: ids to tables without addresses.
struct Describe {
  std::function<tenon_weight(int32_t id)> weight;
  std::function<tenon_store_type(int32_t id)> store;
};

// Fixed address; the table lives as long as this object and borrows the node's attributes and name.
class NodeTable {
 public:
  NodeTable(const graph::Graph& graph, const graph::Node& node, const std::vector<graph::Node>& parts, uint32_t phase,
            const Describe& describe);
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;
  const tenon_node* get() const { return &table_; }
  tenon_weight& weight(size_t i) { return weights_[i]; }

 private:
  std::vector<tenon_type> in_, out_;
  std::vector<tenon_weight> weights_;
  std::vector<tenon_store_type> stores_;
  std::vector<std::unique_ptr<NodeTable>> part_tables_;
  std::vector<tenon_node> parts_;
  tenon_node table_ = {};
};

}  // namespace tenon::program
