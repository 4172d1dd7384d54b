// expert_ffn for few rows: block types of 32 columns.
#include "experts_decode.cuh"

namespace tenon::cuda {

bool enqueue_experts_decode_32(const Launch& launch, const ExpertLaunch& e, Codec codec, bool is_down) {
  return enqueue_experts_decode_of<BlockCodecs32>(launch, e, codec, is_down);
}

}  // namespace tenon::cuda
