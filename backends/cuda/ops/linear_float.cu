// linear for f32, f16 and bf16 weights, and the choice among the families.
#include "linear.cuh"

namespace tenon::cuda {

bool launch_linear_float(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_of<FloatCodecs>(plan, launch, index);
}

void launch_linear_one(const OpPlan& plan, const Launch& launch, int index) {
  if (!launch_linear_float(plan, launch, index) && !launch_linear_32(plan, launch, index) &&
      !launch_linear_256(plan, launch, index) && !launch_linear_any(plan, launch, index))
    throw sdk::Error(TENON_INTERNAL, sdk::text("linear: weight %d has a form that accept() refuses", index));
}

void launch_linear(const OpPlan& plan, const Launch& launch) {
  for (int i = 0; i < int(launch.args.n_weight); ++i) launch_linear_one(plan, launch, i);
}

}  // namespace tenon::cuda
