// attention of prompts on bf16 caches.
#include "attention_tile.cuh"

namespace tenon::cuda {

void enqueue_attention_tile_bf16(const Launch& launch, const AttentionTileLaunch& a) {
  enqueue_attention_tile<true>(launch, a);
}

}  // namespace tenon::cuda
