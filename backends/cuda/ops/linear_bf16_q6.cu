// linear for prompts on tensor cores: packed weights of two, three, six and eight bits a code.
#include "linear_bf16.cuh"

namespace tenon::cuda {

bool enqueue_bf16_q6(const Launch& launch, Codec codec, const LinearBf16& call, dim3 grid, bool is_wide) {
  return enqueue_packed_bf16<CodecList<Codec::kQ2K, Codec::kQ3K, Codec::kQ6K, Codec::kQ8_0>>(launch, codec, call, grid, is_wide);
}

}  // namespace tenon::cuda
