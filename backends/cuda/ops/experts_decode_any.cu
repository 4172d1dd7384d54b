// expert_ffn for few rows: every other form, and gate and up of two forms, looked up as the kernel runs.
#include "codecs_any.cuh"
#include "experts_decode.cuh"

namespace tenon::cuda {

bool enqueue_experts_decode_any(const Launch& launch, const ExpertLaunch& e, bool is_down) {
  return enqueue_experts_decode_of<CodecList<Codec::kNone>>(launch, e, Codec::kNone, is_down);
}

}  // namespace tenon::cuda
