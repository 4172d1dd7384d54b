// A kernel for a group of ops on the reference's device: adds, then norms, as the reference does it one after the
// other.
#include <cmath>
#include <memory>
#include <tenon/sdk/kernel.hpp>
#include <tenon/sdk/plugin.hpp>

namespace {

using namespace tenon;

class AddNorm final : public sdk::Kernel {
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto parts = node.parts();
    if (parts.size() != 2 || sdk::Node(&parts[1]).attr<tenon_norm_attr>().kind != TENON_NORM_RMS)
      return sdk::refuse("rms only");
    for (const tenon_type& type : node.in())
      if (type.groups > 1) return sdk::refuse("an operand is a strided view");
    const tenon_norm_attr& attr = sdk::Node(&parts[1]).attr<tenon_norm_attr>();
    if (attr.group != 0 && int64_t(attr.group) != node.in()[0].cols) return sdk::refuse("whole rows only");
    return sdk::offer().row_exact();
  }
  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    plan.partition = TENON_PART_ONE;
    plan.impl = std::make_unique<float>(sdk::Node(&node.parts()[1]).attr<tenon_norm_attr>().eps).release();
  }
  void drop(tenon_plan& plan) const override { std::unique_ptr<float>(static_cast<float*>(plan.impl)).reset(); }
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker&) const override {
    const float eps = *static_cast<const float*>(plan.impl);
    const int64_t cols = args.out(0).cols;
    const float* w = sdk::at<const float>(args.weight(0).plane[0]);
    for (int64_t r = 0; r < args.rows(); ++r) {
      const float *x = sdk::row<const float>(args.in(0), r), *y = sdk::row<const float>(args.in(1), r);
      float *sum = sdk::row(args.out(0), r), *normed = sdk::row(args.out(1), r);
      double squares = 0;
      for (int64_t c = 0; c < cols; ++c) {
        sum[c] = float(double(x[c]) + double(y[c]));
        squares += double(sum[c]) * sum[c];
      }
      const double root = std::sqrt(squares / double(cols) + eps);
      for (int64_t c = 0; c < cols; ++c) normed[c] = float(sum[c] / root * double(w[c]));
    }
  }
};

}  // namespace

TENON_PLUGIN("add_norm", "0.1.0") {
  registrar.kernel<AddNorm>(
      "add_norm",
      {.backend = "reference", .pattern = "a = add(x, r); n = norm(a; w) -> a, n", .numeric_class = "reference"});
}
