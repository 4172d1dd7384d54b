// attention of decode rows on f16 caches.
#include "attention_split.cuh"

namespace tenon::cuda {

void enqueue_attention_split_f16(const Launch& launch, const SplitLaunch& a) {
  enqueue_attention_split<false>(launch, a);
}

}  // namespace tenon::cuda
