// linear for prompts: block types of 32 columns.
#include "linear_tile.cuh"

namespace tenon::cuda {

bool launch_linear_tile_32(const OpPlan& plan, const Launch& launch, int index) {
  return launch_linear_tile_of<BlockCodecs32>(plan, launch, index);
}

}  // namespace tenon::cuda
