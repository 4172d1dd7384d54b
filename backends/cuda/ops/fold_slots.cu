// fold_slots: a thread an element; the arithmetic that docs/ops.md fixes to the bit.
#include "device.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void fold_slots(View slots, View weights, View y, Live live) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= y.cols) return;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    float sum = 0;
    for (int32_t s = 0; s < weights.cols; ++s) sum += *weights.at(r, s) * *slots.at(r, s * y.cols + c);
    *y.at(r, c) = sum;
  }
}

}  // namespace

void launch_fold_slots(const OpPlan& plan, const Launch& launch) {
  const View y = view_of(launch.out(0));
  enqueue(launch, "fold_slots", fold_slots, dim3(blocks_for(y.cols, kThreads), row_blocks(launch.rows())), kThreads,
          view_of(launch.in(0)), view_of(launch.in(1)), y, live_rows(plan, launch));
}

}  // namespace tenon::cuda
