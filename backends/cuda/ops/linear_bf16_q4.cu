// linear for prompts on tensor cores: packed weights of four bits a code.
#include "linear_bf16.cuh"

namespace tenon::cuda {

bool enqueue_bf16_q4(const Launch& launch, Codec codec, const LinearBf16& call, dim3 grid, bool is_wide) {
  return enqueue_packed_bf16<CodecList<Codec::kQ4_0, Codec::kQ4_1, Codec::kQ4K>>(launch, codec, call, grid, is_wide);
}

}  // namespace tenon::cuda
