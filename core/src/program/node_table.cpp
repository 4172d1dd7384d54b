#include "node_table.hpp"

namespace tenon::program {
namespace {

tenon_type type_of(const graph::Value& value) { return {value.encoding, value.domain, value.cols, value.groups}; }

}  // namespace

NodeTable::NodeTable(const graph::Graph& graph, const graph::Node& node, const std::vector<graph::Node>& parts,
                     uint32_t phase, const Describe& describe) {
  for (int32_t id : node.in) in_.push_back(type_of(graph.values[size_t(id)]));
  for (int32_t id : node.out) out_.push_back(type_of(graph.values[size_t(id)]));
  for (int32_t id : node.weight) weights_.push_back(describe.weight(id));
  for (int32_t id : node.store) stores_.push_back(describe.store(id));
  for (const graph::Node& part : parts) {
    part_tables_.push_back(std::make_unique<NodeTable>(graph, part, std::vector<graph::Node>{}, phase, describe));
    parts_.push_back(*part_tables_.back()->get());
  }
  table_.struct_size = sizeof table_, table_.op = node.op, table_.phase = phase, table_.layer = node.layer;
  table_.name = {node.name.data(), node.name.size()};
  table_.attr = node.attr_data();
  table_.in = in_.data(), table_.n_in = uint32_t(in_.size());
  table_.out = out_.data(), table_.n_out = uint32_t(out_.size());
  table_.weight = weights_.data(), table_.n_weight = uint32_t(weights_.size());
  table_.store = stores_.data(), table_.n_store = uint32_t(stores_.size());
  table_.part = parts_.data(), table_.n_part = uint32_t(parts_.size());
}

}  // namespace tenon::program
