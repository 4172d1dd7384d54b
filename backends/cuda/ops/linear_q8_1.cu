// The product with packed weights for up to 1 row of a block.
#include "linear_q8.cuh"

namespace tenon::cuda {

bool enqueue_linear_q8_1(const Launch& launch, Codec codec, const LinearQ8& call, dim3 grid, unsigned threads) {
  return enqueue_linear_q8_of<0>(launch, codec, call, grid, threads);
}

}  // namespace tenon::cuda
