#include <tenon/sdk/plugin.hpp>

namespace portable {
void scale(float* out, const float* in, int64_t n, float factor);
}

namespace {

using namespace tenon::sdk;

class Scale final : public Kernel {
 public:
  Offer accept(const Node&, const Device&) const override { return offer().row_exact(); }
  void plan(const Node& node, const PlanRequest&, tenon_plan& plan) const override {
    plan.partition = TENON_PART_ONE;
    plan.n_units = node.in()[0].cols;
  }
  void launch(const tenon_plan& plan, const Args& args, const Worker& worker) const override {
    if (worker.index() != 0) return;
    for (int64_t r = 0; r < args.rows(); ++r)
      portable::scale(row(args.out(0), r), row(args.in(0), r), plan.n_units, 2.0f);
  }
};

}  // namespace

TENON_PLUGIN("stranger", "2.0.1") {
  registrar.kernel<Scale>("stranger.scale", {.backend = "stranger", .pattern = "scale", .numeric_class = "stranger.f32"});
}
