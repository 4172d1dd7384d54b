// encode: rows of f32 in another encoding, four columns a thread.
#include "row.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

__global__ void encode(Operand x, Encoded y, Live live) {
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x) * kFour;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Four v;
    load_four(x, r, c, x.view.cols, v);
    encode_four(y, r, c, x.view.cols, v);
  }
}

}  // namespace

void launch_encode(const OpPlan& plan, const Launch& launch) {
  const Operand x = operand_of(launch.in(0));
  enqueue_early(launch, "encode", encode, dim3(blocks_for(x.view.cols, kThreads * kFour), row_blocks(launch.rows())),
                kThreads, x, encoded_of(launch.out(0), plan.encode.encoding), live_rows(plan, launch));
}

}  // namespace tenon::cuda
