// attention of decode rows on bf16 caches.
#include "attention_split.cuh"

namespace tenon::cuda {

void enqueue_attention_split_bf16(const Launch& launch, const SplitLaunch& a) {
  enqueue_attention_split<true>(launch, a);
}

}  // namespace tenon::cuda
