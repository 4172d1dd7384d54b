#include "barriers.hpp"

#include "graph/ops.hpp"

#include <algorithm>

namespace tenon::program {
namespace {

struct Fraction {
  int64_t part, whole;
};

// Begin of worker w's columns.
Fraction boundary(const tenon_plan& plan, int64_t cols, uint32_t w, uint32_t n_workers) {
  if (plan.partition == TENON_PART_HEADS) return {TENON_SHARE(plan.n_units, w, n_workers), plan.n_units};
  const int64_t units = (cols + plan.unit_cols - 1) / plan.unit_cols;
  return {std::min(TENON_SHARE(units, w, n_workers) * plan.unit_cols, cols), cols};
}

bool by_columns(const tenon_plan& plan) {
  return (plan.partition == TENON_PART_HEADS && plan.n_units > 0) ||
         (plan.partition == TENON_PART_OUT_COLS && plan.unit_cols > 0);
}

// Columns that a node's share divides: its outputs', or its first input's where it has none (kv_write).
int64_t divided_cols(const graph::Graph& graph, const graph::Node& node, size_t output) {
  if (output < node.out.size()) return graph.values[size_t(node.out[output])].cols;
  return node.in.empty() ? 1 : graph.values[size_t(node.in[0])].cols;
}

struct Locality {
  uint32_t column_local = 0;
  bool row_local = true;
};

Locality locality(const Selected& one) {
  if (one.node.op != TENON_OP_COMPOSITE) {
    const graph::OpInfo* info = graph::op_info(one.node.op);
    return info ? Locality{info->column_local, info->row_local} : Locality{0, false};  // none: an exchange between ranks
  }
  Locality out;
  for (const graph::Node& part : one.parts) out.row_local = out.row_local && graph::op_info(part.op)->row_local;
  return out;
}

class Placer {
 public:
  Placer(const Selection& selection, const std::vector<tenon_plan>& plans, uint32_t n_workers)
      : selection_(selection), plans_(plans), n_workers_(n_workers) {}

  std::vector<bool> run() {
    const auto& nodes = selection_.nodes;
    std::vector<bool> out(nodes.size(), false);
    if (n_workers_ < 2) return out;
    std::vector<int64_t> writer(selection_.graph.values.size(), -1), output(selection_.graph.values.size(), 0);
    std::vector<int64_t> store_writer(selection_.graph.stores.size(), -1);
    int64_t last_barrier = -1;  // the node that it stands before
    for (size_t i = 0; i < nodes.size(); ++i) {
      const graph::Node& node = nodes[i]->node;
      const Locality local = locality(*nodes[i]);
      bool needed = false;
      for (size_t k = 0; k < node.in.size(); ++k) {
        const int32_t base = selection_.graph.base_of(node.in[k]);
        const int64_t from = writer[size_t(base)];
        if (from < 0 || from < last_barrier) continue;
        if (!shares_value(size_t(from), size_t(output[size_t(base)]), i, k, local)) needed = true;
      }
      for (int32_t store : node.store) {
        const int64_t from = store_writer[size_t(store)];
        if (from >= 0 && from >= last_barrier && !shares_columns(size_t(from), SIZE_MAX, i)) needed = true;
      }
      if (needed) out[i] = true, last_barrier = int64_t(i);
      for (size_t k = 0; k < node.out.size(); ++k) writer[size_t(node.out[k])] = int64_t(i), output[size_t(node.out[k])] = int64_t(k);
      for (int32_t store : node.store) store_writer[size_t(store)] = int64_t(i);
    }
    return out;
  }

 private:
  bool shares_columns(size_t from, size_t from_output, size_t to) const {
    const graph::Node& a = selection_.nodes[from]->node;
    const graph::Node& b = selection_.nodes[to]->node;
    return equal_column_shares(plans_[from], divided_cols(selection_.graph, a, from_output), plans_[to],
                               divided_cols(selection_.graph, b, 0), n_workers_);
  }

  bool shares_value(size_t from, size_t from_output, size_t to, size_t input, const Locality& local) const {
    const tenon_plan &a = plans_[from], &b = plans_[to];
    if (a.partition == TENON_PART_REPLICATE) return true;
    if (a.partition == TENON_PART_ONE && b.partition == TENON_PART_ONE) return true;
    const graph::Value& read = selection_.graph.values[size_t(selection_.nodes[to]->node.in[input])];
    if (a.partition == TENON_PART_ROWS && b.partition == TENON_PART_ROWS) {
      if (is_sliced(from) || is_sliced(to)) return false;
      const int32_t out = selection_.nodes[from]->node.out[from_output];
      return local.row_local && selection_.graph.values[size_t(out)].domain == read.domain;
    }
    if (!(local.column_local >> std::min<size_t>(input, 31) & 1)) return false;
    if (!shares_columns(from, from_output, to)) return false;
    return !read.is_view() || view_keeps_shares(read, to);
  }

  // The rows of each slice are shared out anew, so a worker's rows are others than in one launch.
  bool is_sliced(size_t node) const {
    const tenon_kernel* kernel = selection_.nodes[node]->kernel;
    return kernel && kernel->max_rows;
  }

  // Column fractions of an evenly spread view are its value's where every border falls between groups.
  bool view_keeps_shares(const graph::Value& view, size_t to) const {
    const graph::Value& base = selection_.graph.values[size_t(view.base)];
    if (view.groups * view.group_step != base.cols) return false;
    for (uint32_t w = 1; w < n_workers_; ++w) {
      const Fraction border = boundary(plans_[to], divided_cols(selection_.graph, selection_.nodes[to]->node, 0), w, n_workers_);
      if (border.part * view.groups % border.whole) return false;
    }
    return true;
  }

  const Selection& selection_;
  const std::vector<tenon_plan>& plans_;
  uint32_t n_workers_;
};

}  // namespace

bool equal_column_shares(const tenon_plan& a, int64_t cols_a, const tenon_plan& b, int64_t cols_b, uint32_t n_workers) {
  if (!by_columns(a) || !by_columns(b)) return false;
  for (uint32_t w = 1; w < n_workers; ++w) {
    const Fraction x = boundary(a, cols_a, w, n_workers), y = boundary(b, cols_b, w, n_workers);
    if (x.part * y.whole != y.part * x.whole) return false;
  }
  return true;
}

std::vector<bool> place_barriers(const Selection& selection, const std::vector<tenon_plan>& plans, uint32_t n_workers) {
  return Placer(selection, plans, n_workers).run();
}

}  // namespace tenon::program
