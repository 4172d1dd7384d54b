// linear for prompts on tensor cores: packed weights of five bits a code.
#include "linear_bf16.cuh"

namespace tenon::cuda {

bool enqueue_bf16_q5(const Launch& launch, Codec codec, const LinearBf16& call, dim3 grid, bool is_wide) {
  return enqueue_packed_bf16<CodecList<Codec::kQ5_0, Codec::kQ5_1, Codec::kQ5K>>(launch, codec, call, grid, is_wide);
}

}  // namespace tenon::cuda
