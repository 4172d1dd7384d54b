// linear.cpp: the kernel class of `linear`; the arithmetic is in linear_tile.cpp.
#include <string>

#include "../../simd/amx.hpp"
#include "kernels.hpp"

namespace tenon::block {
namespace {

// Why a weight cannot be served; empty if it can.
std::string weight_fault(const tenon_weight& w, int64_t cols) {
  const auto type = type_of_dtype(w.dtype);
  if (!type) return "serves GGUF block types, not " + std::string(sdk::dtype_name(w.dtype));
  if (w.cols != cols) {
    return sdk::text("weight has %lld columns, the input %lld", static_cast<long long>(w.cols),
                     static_cast<long long>(cols));
  }
  if (w.cols % info(*type).file_cols) {
    return sdk::text("%lld columns are no multiple of %s's block of %d", static_cast<long long>(w.cols),
                     info(*type).name, info(*type).file_cols);
  }
  if (w.rows <= 0 || w.cols <= 0) return "weight is empty";
  if (w.n_expert > 1) return "serves one matrix, not a bank of experts";
  if (w.parts > 1) return sdk::text("the fold has one part, %u are pinned", w.parts);
  if (w.flags & TENON_WEIGHT_ROUTER) return "a router needs an f32 product";
  return {};
}

}  // namespace

sdk::Offer Linear::accept(const sdk::Node& node, const sdk::Device&) const {
  const auto weights = node.weights();
  if (node.op() != TENON_OP_LINEAR) return sdk::refuse("serves linear");
  if (weights.empty() || weights.size() > kMaxWeights || node.in().size() != 1 || node.out().size() != weights.size()) {
    return sdk::refuse("serves one input and 1 to %d weights with an output each", kMaxWeights);
  }
  const tenon_type& x = node.in()[0];
  if (node.table().attr && (node.attr<tenon_linear_attr>().flags & TENON_WEIGHT_ROUTER)) {
    return sdk::refuse("a router needs an f32 product");
  }
  if (x.groups > 1)
    return sdk::refuse("reads q8_32, which has no strided views; the input has %lld groups",
                       static_cast<long long>(x.groups));
  if (x.cols <= 0 || x.cols % kBlockCols) {
    return sdk::refuse("%lld input columns are no multiple of %d", static_cast<long long>(x.cols), kBlockCols);
  }
  sdk::Offer offer = sdk::offer().reads(0, sdk::Encoding::kQ8_32).row_exact();
  double bytes = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string fault = weight_fault(weights[i], x.cols);
    if (!fault.empty()) return sdk::Offer::refusal(sdk::text("weight %d: ", static_cast<int>(i)) + fault);
    if (node.out()[i].groups > 1) return sdk::refuse("output %d is a strided view", static_cast<int>(i));
    const Type type = *type_of_dtype(weights[i].dtype);
    offer.packs(static_cast<int>(i), layout_of(type)).emits(static_cast<int>(i), sdk::Encoding::kF32);
    bytes += static_cast<double>((weights[i].rows + kPanelRows - 1) / kPanelRows * panel_bytes(type, x.cols));
  }
  return offer.cost(bytes);
}

void Linear::pack(const sdk::Node&, const sdk::PackSlice& slice) const { pack_weight(slice); }

void Linear::plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const {
  const int64_t cols = node.in()[0].cols;
  const int64_t rows = request.max_rows ? request.max_rows : 1;
  plan.partition = TENON_PART_OUT_COLS;
  plan.unit_cols = kPanelRows;
  plan.n_units = (node.weights()[0].rows + kPanelRows - 1) / kPanelRows;
  plan.workspace = 0;
  plan.scratch =
      static_cast<uint64_t>(set_.scratch_bytes(cols, rows < chunk_rows_for(cols) ? rows : chunk_rows_for(cols)));
}

LinearJob Linear::job_of(const sdk::Args& args, const sdk::Worker& worker) {
  const tenon_view& x = args.in(0);
  LinearJob job = {};
  job.x = sdk::at<const uint8_t>(x.data);
  job.x_row_bytes = x.row_bytes;
  job.rows = args.rows();
  job.cols = x.cols;
  job.scratch = worker.scratch();
  job.chunk_rows = chunk_rows_for(x.cols);
  job.n_product = static_cast<int>(args.table().n_weight);
  for (int i = 0; i < job.n_product; ++i) {
    const tenon_weight& w = args.weight(i);
    const sdk::Range share = worker.share((w.rows + kPanelRows - 1) / kPanelRows);
    job.product[i] = {type_of_layout(w.layout),
                      sdk::at<const uint8_t>(w.plane[0]),
                      w.rows,
                      share.begin,
                      share.end,
                      sdk::at<float>(args.out(i).data),
                      args.out(i).row_bytes};
  }
  return job;
}

void Linear::launch(const tenon_plan&, const sdk::Args& args, const sdk::Worker& worker) const {
  set_.linear(job_of(args, worker));
}

sdk::Offer LinearAmx::accept(const sdk::Node& node, const sdk::Device& device) const {
  if (node.decode()) return sdk::refuse("serves prefill: tiles want rows");
  sdk::Offer offer = Linear::accept(node, device);
  if (offer.refused()) return offer;
  return offer.reads(0, sdk::Encoding::kBf16).flag(TENON_OFFER_BF16_WEIGHTS);
}

void LinearAmx::plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const {
  Linear::plan(node, request, plan);
  plan.scratch = cpu::amx::kScratchBytes;
}

void LinearAmx::launch(const tenon_plan&, const sdk::Args& args, const sdk::Worker& worker) const {
  avx512::linear_amx(job_of(args, worker));
}

}  // namespace tenon::block
