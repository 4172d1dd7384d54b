// expert_ffn for prompts: block types of 256 columns.
#include "experts_tile.cuh"

namespace tenon::cuda {

bool enqueue_experts_tile_256(const Launch& launch, const ExpertLaunch& e, Codec codec, bool is_down) {
  return enqueue_experts_tile_of<BlockCodecs256>(launch, e, codec, is_down);
}

}  // namespace tenon::cuda
