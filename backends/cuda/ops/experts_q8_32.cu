// expert_ffn for q8_32 rows: packed block types of 32 columns.
#include "experts_q8.cuh"

namespace tenon::cuda {

bool enqueue_experts_q8_32(const Launch& launch, const ExpertLaunchQ8& e, Codec codec, bool is_down) {
  return enqueue_experts_q8_of<BlockCodecs32>(launch, e, codec, is_down);
}

}  // namespace tenon::cuda
