// linear for prompts: every other form, looked up as the kernel runs.
#include "codecs_any.cuh"
#include "linear_tile.cuh"

namespace tenon::cuda {

bool launch_linear_tile_any(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_tile_of<AnyCodec>(plan, launch, index);
}

}  // namespace tenon::cuda
