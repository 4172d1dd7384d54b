// composite_kernel.hpp: what kernels of composites have in common: class `parts`, a plan of their own, one text each.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "../runtime.hpp"
#include "composite_text.hpp"
#include "ops.hpp"

namespace tenon::cuda {

// Plan: a plain struct that begins with an OpPlan, of which domain and max_rows are filled here.
template <typename Plan>
class CompositeKernel : public sdk::Kernel {
 public:
  using LaunchPlan = void (*)(const Plan&, const Launch&);
  CompositeKernel(std::string_view text, LaunchPlan launch) : text_(read_composite(text)), launch_(launch) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override {
    for (const tenon_weight& w : node.weights())
      if (w.parts > 1 || w.n_expert > 0 || w.layout != 0) return sdk::refuse("reads small tables of weights alone");
    sdk::Offer offer = check(node);
    if (offer.refused()) return offer;
    offer.row_exact().capturable();
    return device.table().compute_major >= 9 ? offer.flag(TENON_OFFER_PDL) : offer;
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto out = std::make_unique<Plan>();
    std::memset(static_cast<void*>(out.get()), 0, sizeof *out);
    out->op.op = node.op(), out->op.phase = node.table().phase, out->op.max_rows = request.max_rows;
    out->op.domain = node.out()[0].domain;
    fill(node, *out);
    plan.partition = TENON_PART_ONE;
    plan.impl = out.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const tenon_exec& exec = worker.table();
    use_device_of(exec.stream);
    launch_(*static_cast<const Plan*>(plan.impl),
            {args.table(), exec.workspace, exec.stream, (exec.flags & TENON_OFFER_PDL) != 0});
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<Plan>(static_cast<Plan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 protected:
  // An offer or why not; then the plan of a node that was taken.
  virtual sdk::Offer check(const sdk::Node&) const = 0;
  virtual void fill(const sdk::Node&, Plan&) const = 0;
  const CompositeText& text() const { return text_; }

 private:
  CompositeText text_;
  LaunchPlan launch_;
};

template <typename Kernel>
void register_composite(sdk::Registrar& registrar, const std::string& name, const std::string& text) {
  sdk::KernelInfo info;
  info.backend = "cuda", info.pattern = text, info.numeric_class = "parts";
  registrar.kernel<Kernel>("cuda.fused." + name, info, text);
}

}  // namespace tenon::cuda
