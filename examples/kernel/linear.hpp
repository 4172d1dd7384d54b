// linear.hpp: y[r, n] = Σ_k x[r, k] × W[n, k] for weights of example_q6.
#pragma once

#include <tenon/sdk/kernel.hpp>

namespace example {

class Linear final : public tenon::sdk::Kernel {
 public:
  explicit Linear(uint32_t dtype) : dtype_(dtype) {}
  tenon::sdk::Offer accept(const tenon::sdk::Node&, const tenon::sdk::Device&) const override;
  void plan(const tenon::sdk::Node&, const tenon::sdk::PlanRequest&, tenon_plan&) const override;
  void launch(const tenon_plan&, const tenon::sdk::Args&, const tenon::sdk::Worker&) const override;

 private:
  uint32_t dtype_;
};

}  // namespace example
