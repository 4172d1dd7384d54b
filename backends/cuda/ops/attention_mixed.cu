// attention on caches whose keys and values have different types, and on quantised ones.
#include "attention.cuh"

namespace tenon::cuda {

void enqueue_attention_mixed(const Launch& launch, const AttentionLaunch& a) {
  enqueue_attention<Codec::kNone>(launch, a);
}

}  // namespace tenon::cuda
