// linear for block types of 32 columns.
#include "linear.cuh"

namespace tenon::cuda {

bool launch_linear_32(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_of<BlockCodecs32>(plan, launch, index);
}

}  // namespace tenon::cuda
