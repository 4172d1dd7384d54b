// linear for every other form: the storage form is looked up as the kernel runs.
#include "codecs_any.cuh"
#include "linear.cuh"

namespace tenon::cuda {

bool launch_linear_any(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_of<AnyCodec>(plan, launch, index);
}

}  // namespace tenon::cuda
