// attention on f16 and bf16 caches.
#include "attention.cuh"

namespace tenon::cuda {

void enqueue_attention_half(const Launch& launch, const AttentionLaunch& a) {
  if (a.codec_k == Codec::kF16) return enqueue_attention<Codec::kF16>(launch, a);
  enqueue_attention<Codec::kBf16>(launch, a);
}

}  // namespace tenon::cuda
