// linear for prompts on tensor cores: packed weights whose codes are numbers of levels.
#include "linear_bf16.cuh"

namespace tenon::cuda {

bool enqueue_bf16_levels(const Launch& launch, Codec codec, const LinearBf16& call, dim3 grid, bool is_wide) {
  return enqueue_packed_bf16<CodecList<Codec::kIq4Nl, Codec::kIq4Xs>>(launch, codec, call, grid, is_wide);
}

}  // namespace tenon::cuda
