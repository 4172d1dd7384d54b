// expert_ffn for prompts: every other form, and gate and up of two forms, looked up as the kernel runs.
#include "codecs_any.cuh"
#include "experts_tile.cuh"

namespace tenon::cuda {

bool enqueue_experts_tile_any(const Launch& launch, const ExpertLaunch& e, bool is_down) {
  return enqueue_experts_tile_of<CodecList<Codec::kNone>>(launch, e, Codec::kNone, is_down);
}

}  // namespace tenon::cuda
