// A composite of two exact ops that says that it equals its parts. Without a fault it does.
#include <memory>
#include <tenon/sdk/plugin.hpp>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kRoundsOnce, kForgetsAnOutput };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

class AddScale final : public sdk::Kernel {
 public:
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (node.parts().size() != 2 || node.out().size() != 2) return sdk::refuse("serves add and scale");
    return sdk::offer().row_exact();
  }
  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    plan.partition = TENON_PART_ROWS;
    plan.impl = std::make_unique<float>(static_cast<const tenon_scale_attr*>(node.parts()[1].attr)->factor).release();
  }
  void drop(tenon_plan& plan) const override { std::unique_ptr<float>(static_cast<float*>(plan.impl)).reset(); }
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const float factor = *static_cast<const float*>(plan.impl);
    const sdk::Range rows = worker.share(args.rows());
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = 0; c < args.out(0).cols; ++c) {
        const float x = sdk::row(args.in(0), r)[c], y = sdk::row(args.in(1), r)[c], sum = x + y;
        if (kFault != kForgetsAnOutput || r == 0) sdk::row(args.out(0), r)[c] = sum;
        sdk::row(args.out(1), r)[c] =
            kFault == kRoundsOnce ? float((double(x) + double(y)) * double(factor)) : sum * factor;
      }
  }
};

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") {
  registrar.kernel<AddScale>(KIT_NAME, {.pattern = "a = add(x, y); s = scale(a) -> a, s", .numeric_class = "parts"});
}
