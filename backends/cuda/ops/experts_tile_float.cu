// expert_ffn for prompts: f32, f16 and bf16 weights.
#include "experts_tile.cuh"

namespace tenon::cuda {

bool enqueue_experts_tile_float(const Launch& launch, const ExpertLaunch& e, Codec codec, bool is_down) {
  return enqueue_experts_tile_of<FloatCodecs>(launch, e, codec, is_down);
}

}  // namespace tenon::cuda
