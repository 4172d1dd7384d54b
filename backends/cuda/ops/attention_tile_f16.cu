// attention of prompts on f16 caches.
#include "attention_tile.cuh"

namespace tenon::cuda {

void enqueue_attention_tile_f16(const Launch& launch, const AttentionTileLaunch& a) {
  enqueue_attention_tile<false>(launch, a);
}

}  // namespace tenon::cuda
