// experts.cpp: the kernel class of `expert_ffn`; its arithmetic is in linear_tile.cpp and experts_tile.cpp.
//
//   1. Every worker groups the step's slots by expert, for itself.
//   2. Hidden rows: a worker takes a share of the hidden columns of all groups, blocks of 32, and leaves them in q8_32.
//   3. Behind a barrier: a worker takes a share of the output columns, some panels at a time: the slots of all groups,
//      then their sums, or each slot by itself.
#include <cstring>
#include <memory>
#include <string>
#include <tenon/sdk/experts.hpp>

#include "kernels.hpp"

namespace tenon::block {
namespace {

constexpr int64_t kHiddenRows = 48;  // rows of a group whose gate and up are held at once

struct Plan {
  tenon_expert_ffn_attr attr;
  int64_t max_rows;
};

// Where parts of a worker's scratch begin.
struct Layout {
  int64_t row_of, product, gate, up, slots, end;
};

// Panels of output columns together: as many as leave the slots of all rows in the second-level cache, but at least
// four, so that rows are not rearranged too often.
int64_t panels_together(int64_t slots, int64_t panels) {
  const int64_t fit = (int64_t{1} << 20) / (slots * kPanelRows * 4);
  const int64_t n = fit < 4 ? 4 : fit / 4 * 4;
  return n < panels ? n : panels;
}

Layout layout_of(const InstructionSet& set, const Plan& plan, const tenon_weight* w) {
  const int64_t width = w[0].cols, hidden = w[2].cols, cols = w[2].rows, top_k = plan.attr.top_k;
  const int64_t slots = plan.max_rows * top_k, panels = (cols + kPanelRows - 1) / kPanelRows;
  Layout out = {};
  out.end = sdk::expert_groups_bytes(plan.max_rows, top_k, w[0].n_expert);
  const auto take = [&](int64_t bytes) {
    const int64_t at = out.end;
    out.end += TENON_ALIGN64(bytes);
    return at;
  };
  const auto chunk = [&](int64_t k) {
    return set.scratch_bytes(k, slots < chunk_rows_for(k) ? slots : chunk_rows_for(k));
  };
  out.row_of = take(slots * 4);
  out.product = take(chunk(width) > chunk(hidden) ? chunk(width) : chunk(hidden));
  out.gate = take(kHiddenRows * hidden * 4);
  out.up = take(kHiddenRows * hidden * 4);
  // Fewer rows than planned take more panels, but no more than fit.
  const int64_t most = slots * panels_together(slots, panels) * kPanelRows * 4;
  out.slots = take(most > (int64_t{1} << 20) ? most : int64_t{1} << 20);
  return out;
}

std::string stack_fault(const tenon_weight& w, int64_t cols) {
  const auto type = type_of_dtype(w.dtype);
  if (!type) return "serves GGUF block types, not " + std::string(sdk::dtype_name(w.dtype));
  if (w.cols != cols || w.cols <= 0 || w.rows <= 0) return "does not fit the others";
  if (w.cols % info(*type).file_cols)
    return sdk::text("%lld columns are no multiple of %s's block of %d", static_cast<long long>(w.cols),
                     info(*type).name, info(*type).file_cols);
  if (w.n_expert < 1) return "is no stack of experts";
  if (w.parts > 1) return sdk::text("the fold has one part, %u are pinned", w.parts);
  return {};
}

// A launch of one worker.
class Run {
 public:
  Run(const InstructionSet& set, const Plan& plan, const sdk::Args& args, const sdk::Worker& worker)
      : set_(set), plan_(plan), args_(args), worker_(worker), at_(layout_of(set, plan, args.table().weight)) {}

  void operator()() {
    const int64_t top_k = plan_.attr.top_k;
    // Every worker finds the same fault, so none waits for another.
    if (!sdk::group_experts(args_.in(1), args_.rows(), args_.table().weight, worker_.scratch(), &groups_))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("expert_ffn: expert %d is outside 0..%u",
                                                         sdk::unnamed_expert(args_.in(1), args_.rows(), args_.weight(0).n_expert),
                                                         args_.weight(0).n_expert));
    auto* row_of = part<int32_t>(at_.row_of);
    for (int64_t p = 0; p < groups_.n_pair; ++p) row_of[p] = static_cast<int32_t>(groups_.pair[p] / top_k);
    sdk::ExpertShare share(groups_, hidden_cols() / kBlockCols, worker_.table());
    for (int64_t g = 0; g < groups_.n_group; ++g) {
      int64_t first = 0, end = 0;
      share.next(groups_.group[g], &first, &end);
      if (first < end) hidden_blocks(groups_.group[g], first, end);
    }
    worker_.barrier();
    const sdk::Range panels = worker_.share((args_.weight(2).rows + kPanelRows - 1) / kPanelRows);
    if (panels.begin == panels.end) return;
    const int64_t together = panels_together(groups_.n_pair ? groups_.n_pair : 1, panels.end - panels.begin);
    for (int64_t p = panels.begin; p < panels.end; p += together)
      output_panels(p, p + together < panels.end ? p + together : panels.end);
  }

 private:
  template <typename T>
  T* part(int64_t offset) const {
    return reinterpret_cast<T*>(worker_.scratch() + offset);
  }
  int64_t hidden_cols() const { return args_.weight(2).cols; }
  int64_t hidden_row_bytes() const { return tenon_encoding_row_bytes(TENON_ENC_Q8_32, hidden_cols()); }

  // `out` is where column 0 would be.
  Product product(int which, int64_t expert, int64_t panel0, int64_t panel1, float* out, int64_t row_bytes) const {
    const tenon_weight w = sdk::expert_matrix(args_.weight(which), which, expert);
    return {type_of_layout(w.layout), sdk::at<const uint8_t>(w.plane[0]), w.rows, panel0, panel1, out, row_bytes};
  }
  LinearJob job(const uint8_t* x, int64_t row_bytes, int64_t rows, int64_t cols) const {
    LinearJob out = {};
    out.x = x, out.x_row_bytes = row_bytes, out.rows = rows, out.cols = cols;
    out.scratch = part<uint8_t>(at_.product), out.chunk_rows = chunk_rows_for(cols);
    return out;
  }

  // Blocks [first, end) of a group's hidden columns, into the workspace.
  void hidden_blocks(const sdk::ExpertGroup& group, int64_t first, int64_t end) {
    const tenon_view& x = args_.in(0);
    const int64_t wide = (end - first) * kBlockCols, panel = kBlockCols / kPanelRows;
    float *gate = part<float>(at_.gate), *up = part<float>(at_.up);
    for (int64_t r = 0; r < group.n; r += kHiddenRows) {
      const int64_t n = group.n - r < kHiddenRows ? group.n - r : kHiddenRows;
      LinearJob products = job(sdk::at<const uint8_t>(x.data), x.row_bytes, n, x.cols);
      products.row_of = part<int32_t>(at_.row_of) + group.begin + r;
      products.n_product = 2;
      products.product[0] = product(0, group.expert, first * panel, end * panel, gate - first * kBlockCols, wide * 4);
      products.product[1] = product(1, group.expert, first * panel, end * panel, up - first * kBlockCols, wide * 4);
      set_.linear(products);
      HiddenJob act = {};
      act.gate = gate, act.up = up, act.rows = n, act.row_floats = wide, act.block0 = first, act.blocks = end - first;
      act.gate_factor = sdk::expert_factor(args_.weight(0), 0, group.expert);
      act.up_factor = sdk::expert_factor(args_.weight(1), 1, group.expert);
      act.activation = plan_.attr.activation, act.limit = plan_.attr.limit, act.alpha = plan_.attr.alpha;
      act.out_row_bytes = hidden_row_bytes(), act.cols = hidden_cols();
      act.out = worker_.workspace() + (group.begin + r) * act.out_row_bytes;
      set_.hidden(act);
    }
  }

  void output_panels(int64_t panel0, int64_t panel1) {
    const int64_t wide = (panel1 - panel0) * kPanelRows, first = panel0 * kPanelRows, cols = args_.weight(2).rows;
    float* slots = part<float>(at_.slots);
    for (int64_t g = 0; g < groups_.n_group; ++g) {
      const sdk::ExpertGroup& group = groups_.group[g];
      float* y = slots + group.begin * wide;
      LinearJob products =
          job(worker_.workspace() + group.begin * hidden_row_bytes(), hidden_row_bytes(), group.n, hidden_cols());
      products.n_product = 1;
      products.product[0] = product(2, group.expert, panel0, panel1, y - first, wide * 4);
      set_.linear(products);
      const float factor = sdk::expert_factor(args_.weight(2), 2, group.expert);
      for (int64_t i = 0; factor != 1.0f && i < group.n * wide; ++i) y[i] *= factor;
    }
    const tenon_view &share = args_.in(2), &out = args_.out(0);
    FoldJob sums = {};
    sums.slots = slots, sums.place = groups_.place, sums.wide = wide, sums.rows = args_.rows(),
    sums.top_k = plan_.attr.top_k;
    sums.share = sdk::at<const uint8_t>(share.data), sums.share_row_bytes = share.row_bytes;
    sums.cols = wide < cols - first ? wide : cols - first;
    sums.out = sdk::at<uint8_t>(out.data, first * 4), sums.out_row_bytes = out.row_bytes;
    sums.slot_bytes = plan_.attr.combine ? cols * 4 : 0;
    set_.fold(sums);
  }

  const InstructionSet& set_;
  const Plan& plan_;
  const sdk::Args& args_;
  const sdk::Worker& worker_;
  Layout at_;
  sdk::ExpertGroups groups_ = {};
};

}  // namespace

sdk::Offer ExpertFfn::accept(const sdk::Node& node, const sdk::Device&) const {
  const auto w = node.weights();
  if (node.op() != TENON_OP_EXPERT_FFN || w.size() != 3 || node.in().size() != 3)
    return sdk::refuse("serves expert_ffn: x, ids, weights and three stacks");
  const auto& attr = node.attr<tenon_expert_ffn_attr>();
  if (attr.activation > TENON_ACT_SWIGLU_OAI) return sdk::refuse("activation %u", attr.activation);
  if (node.in()[0].groups > 1 || node.out()[0].groups > 1) return sdk::refuse("reads and writes whole rows");
  if (w[2].cols % kBlockCols)
    return sdk::refuse("%lld hidden columns are no multiple of %d", static_cast<long long>(w[2].cols), kBlockCols);
  sdk::Offer offer = sdk::offer().reads(0, sdk::Encoding::kQ8_32).row_exact().flag(TENON_OFFER_PARTIAL_BANK);
  double bytes = 0;
  for (int i = 0; i < 3; ++i) {
    std::string fault = stack_fault(w[size_t(i)], i == 2 ? w[0].rows : node.in()[0].cols);
    if (fault.empty() && (w[size_t(i)].n_expert != w[0].n_expert || w[1].rows != w[0].rows))
      fault = "does not fit the others";
    if (!fault.empty()) return sdk::Offer::refusal(sdk::text("weight %d: ", i) + fault);
    const Type type = *type_of_dtype(w[size_t(i)].dtype);
    offer.packs(i, layout_of(type));
    bytes += static_cast<double>(w[size_t(i)].rows / kPanelRows * panel_bytes(type, w[size_t(i)].cols));
  }
  return offer.cost(bytes * attr.top_k);
}

void ExpertFfn::pack(const sdk::Node&, const sdk::PackSlice& slice) const { pack_weight(slice); }

void ExpertFfn::plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const {
  auto own = std::make_unique<Plan>(Plan{node.attr<tenon_expert_ffn_attr>(), request.max_rows ? request.max_rows : 1});
  const tenon_weight* w = node.weights().data();
  // Slots that are given one by one lie elsewhere than a share of the columns.
  plan.partition = own->attr.combine ? TENON_PART_CLAIM : TENON_PART_OUT_COLS, plan.unit_cols = kPanelRows;
  plan.n_units = (w[2].rows + kPanelRows - 1) / kPanelRows;
  plan.workspace =
      static_cast<uint64_t>(own->max_rows * own->attr.top_k * tenon_encoding_row_bytes(TENON_ENC_Q8_32, w[2].cols));
  plan.scratch = static_cast<uint64_t>(layout_of(set_, *own, w).end);
  plan.impl = own.release();
}

void ExpertFfn::launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const {
  Run(set_, *static_cast<const Plan*>(plan.impl), args, worker)();
}

void ExpertFfn::drop(tenon_plan& plan) const {
  std::unique_ptr<Plan>(static_cast<Plan*>(plan.impl)).reset();
  plan.impl = nullptr;
}

}  // namespace tenon::block
