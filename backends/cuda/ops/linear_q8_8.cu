// The product with packed weights for up to 8 rows of a block.
#include "linear_q8.cuh"

namespace tenon::cuda {

bool enqueue_linear_q8_8(const Launch& launch, Codec codec, const LinearQ8& call, dim3 grid, unsigned threads) {
  return enqueue_linear_q8_of<1>(launch, codec, call, grid, threads);
}

}  // namespace tenon::cuda
