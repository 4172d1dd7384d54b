// linear for block types of 256 columns.
#include "linear.cuh"

namespace tenon::cuda {

bool launch_linear_256(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_of<BlockCodecs256>(plan, launch, index);
}

}  // namespace tenon::cuda
