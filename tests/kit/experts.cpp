// Experts of f32 weights by one worker, row by row. Without a fault they are sound, also where some are elsewhere.
#include <cmath>
#include <memory>
#include <tenon/sdk/experts.hpp>
#include <tenon/sdk/plugin.hpp>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kSumsInDouble, kLeavesSlots, kDependsOnOwner, kTrustsIds, kNamesNoId };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

class Experts final : public sdk::Kernel {
 public:
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (node.weights().size() != 3) return sdk::refuse("serves expert_ffn");
    const auto& attr = node.attr<tenon_expert_ffn_attr>();
    if (attr.activation != TENON_ACT_SILU || attr.limit != 0) return sdk::refuse("serves SiLU without a limit");
    for (const tenon_weight& w : node.weights())
      if (w.dtype != TENON_DTYPE_F32 || w.parts > 1 || w.n_expert < 1) return sdk::refuse("serves stacks of f32");
    if (node.weights()[2].cols != node.weights()[0].rows || node.weights()[0].cols != node.in()[0].cols)
      return sdk::refuse("the stacks do not fit");
    return sdk::offer().row_exact().flag(TENON_OFFER_PARTIAL_BANK);
  }
  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    const auto& attr = node.attr<tenon_expert_ffn_attr>();
    plan.partition = TENON_PART_ONE;
    plan.workspace = sizeof(float) * size_t(node.weights()[2].cols + node.weights()[2].rows * attr.top_k);
    plan.impl = std::make_unique<tenon_expert_ffn_attr>(attr).release();
  }
  void drop(tenon_plan& plan) const override {
    std::unique_ptr<tenon_expert_ffn_attr>(static_cast<tenon_expert_ffn_attr*>(plan.impl)).reset();
  }
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    if (worker.index() != 0) return;
    const auto& attr = *static_cast<const tenon_expert_ffn_attr*>(plan.impl);
    if (kFault != kTrustsIds) check_ids(args);
    const int64_t hidden = args.weight(2).cols, cols = args.weight(2).rows, top_k = attr.top_k;
    float *h = reinterpret_cast<float*>(worker.workspace()), *slots = h + hidden;
    for (int64_t r = 0; r < args.rows(); ++r) {
      const float* weights = sdk::row(args.in(2), r);
      for (int64_t s = 0; s < top_k; ++s) slot(args, r, sdk::row<int32_t>(args.in(1), r)[s], h, slots + s * cols);
      float* y = sdk::row(args.out(0), r);
      if (attr.combine) {
        for (int64_t s = 0; s < top_k; ++s)
          if (kFault != kLeavesSlots || is_here(args, r, s))
            for (int64_t c = 0; c < cols; ++c) y[s * cols + c] = slots[s * cols + c];
      } else if (kFault == kSumsInDouble) {
        for (int64_t c = 0; c < cols; ++c) {
          double sum = 0;
          for (int64_t s = 0; s < top_k; ++s) sum += double(weights[s]) * double(slots[s * cols + c]);
          y[c] = float(sum);
        }
      } else {
        sdk::fold_slots(
            top_k, cols, [&](int64_t s) { return weights[s]; },
            [&](int64_t s) { return is_here(args, r, s) ? slots + s * cols : nullptr; }, y);
      }
    }
  }

 private:
  static void check_ids(const sdk::Args& args) {
    const uint32_t n = args.weight(0).n_expert;
    const int32_t id = sdk::unnamed_expert(args.in(1), args.rows(), n);
    if (id == 0) return;
    if (kFault == kNamesNoId) throw sdk::Error(TENON_INVALID_ARGUMENT, "an id names no expert");
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("expert %d is outside 0..%u", id, n));
  }
  static bool is_here(const sdk::Args& args, int64_t r, int64_t s) {
    return sdk::expert_is_here(args.table().weight, sdk::row<int32_t>(args.in(1), r)[s]);
  }

  static float dot(const sdk::Args& args, int which, int64_t id, int64_t row, const float* x) {
    const tenon_weight w = sdk::expert_matrix(args.weight(which), which, id);
    const auto* from = sdk::at<const float>(w.plane[0], row * w.row_bytes);
    const bool backwards = kFault == kDependsOnOwner && !sdk::expert_is_here(args.table().weight, 0);
    float sum = 0;
    for (int64_t k = 0; k < w.cols; ++k) sum += backwards ? from[w.cols - 1 - k] * x[w.cols - 1 - k] : from[k] * x[k];
    return sum * sdk::expert_factor(args.weight(which), which, id);
  }

  static void slot(const sdk::Args& args, int64_t r, int64_t id, float* h, float* out) {
    const int64_t hidden = args.weight(2).cols, cols = args.weight(2).rows;
    const bool here = sdk::expert_is_here(args.table().weight, id);
    const float* x = sdk::row(args.in(0), r);
    for (int64_t i = 0; here && i < hidden; ++i) {
      const float g = dot(args, 0, id, i, x);
      h[i] = g / (1.0f + std::exp(-g)) * dot(args, 1, id, i, x);
    }
    for (int64_t c = 0; c < cols; ++c) out[c] = here ? dot(args, 2, id, c, h) : 0.0f;
  }
};

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") {
  registrar.kernel<Experts>(KIT_NAME, {.pattern = "expert_ffn", .numeric_class = KIT_NAME});
}
