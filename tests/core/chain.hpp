// chain.hpp: nodes with plans, put together by hand for barriers and arenas.
#pragma once

#include <memory>
#include <vector>

#include "program/select.hpp"

namespace tenon::core_test {

struct Chain {
  program::Selection selection;
  std::vector<tenon_plan> plans;

  int32_t value(int64_t cols, uint32_t domain = TENON_DOMAIN_TOKENS) {
    graph::Value v;
    v.cols = cols, v.domain = domain;
    selection.graph.values.push_back(v);
    return int32_t(selection.graph.values.size()) - 1;
  }
  int32_t view(int32_t base, int64_t col0, int64_t cols, int64_t groups, int64_t step) {
    graph::Value v = selection.graph.values[size_t(base)];
    v.base = base, v.col0 = col0, v.cols = cols, v.groups = groups, v.group_step = step;
    selection.graph.values.push_back(v);
    return int32_t(selection.graph.values.size()) - 1;
  }
  int32_t store(uint32_t kind = TENON_STORE_PAGED) {
    graph::Store s;
    s.kind = kind;
    selection.graph.stores.push_back(s);
    return int32_t(selection.graph.stores.size()) - 1;
  }
  std::vector<int32_t> ops(uint32_t op, const tenon_plan& plan, std::vector<int32_t> in, std::vector<int64_t> out_cols,
                           std::vector<int32_t> stores = {}) {
    auto one = std::make_unique<program::Selected>();
    one->node.op = op, one->node.in = std::move(in), one->node.store = std::move(stores);
    const uint32_t domain =
        op == TENON_OP_SELECT_ROWS || reads_outputs(one->node) ? TENON_DOMAIN_OUTPUT_ROWS : TENON_DOMAIN_TOKENS;
    for (int64_t cols : out_cols) one->node.out.push_back(value(cols, domain));
    const std::vector<int32_t> out = one->node.out;
    selection.nodes.push_back(std::move(one));
    plans.push_back(plan);
    return out;
  }
  int32_t op(uint32_t op, const tenon_plan& plan, std::vector<int32_t> in, int64_t cols,
             std::vector<int32_t> stores = {}) {
    return ops(op, plan, std::move(in), {cols}, std::move(stores))[0];
  }
  int32_t composite(std::vector<uint32_t> parts, const tenon_plan& plan, std::vector<int32_t> in, int64_t cols) {
    const int32_t out = op(TENON_OP_COMPOSITE, plan, std::move(in), cols);
    for (uint32_t part : parts) selection.nodes.back()->parts.emplace_back().op = part;
    return out;
  }

 private:
  bool reads_outputs(const graph::Node& node) const {
    for (int32_t v : node.in)
      if (selection.graph.values[size_t(v)].domain == TENON_DOMAIN_OUTPUT_ROWS) return true;
    return false;
  }
};

}  // namespace tenon::core_test
