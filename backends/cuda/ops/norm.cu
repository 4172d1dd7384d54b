// norm: a block for each row and group, in the order of sums of row.cuh.
#include "row.cuh"

namespace tenon::cuda {
namespace {

__global__ void norm(Operand x, Operand y, Table w, NormShape shape, Live live) {
  __shared__ float part[kMaxThreads / kWarp];
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t begin = int32_t(blockIdx.x) * shape.group, end = begin + shape.group;
  const int32_t first = begin + int32_t(threadIdx.x) * kFour, step = int32_t(blockDim.x) * kFour;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Four v, weight = {};
    float squares = 0;
    for (int32_t c = first; c < end; c += step) {
      load_four(x, r, c, end, v);
      squares = add_squares(squares, v);
    }
    const float factor = norm_factor(shape, block_sum(squares, part));
    for (int32_t c = first; c < end; c += step) {
      load_four(x, r, c, end, v);
      if (w.data) load_four(w, c - begin, shape.group, weight);
#pragma unroll
      for (int i = 0; i < kFour; ++i) v[i] = normed(v[i], factor, w.data, weight[i]);
      store_four(y, r, c, end, v);
    }
  }
}

}  // namespace

void launch_norm(const OpPlan& plan, const Launch& launch) {
  Operand x = operand_of(launch.in(0)), y = operand_of(launch.out(0));
  const NormShape shape = norm_shape(plan.norm, x.view.cols);
  if (shape.group % kFour) x.has_vectors = y.has_vectors = false;
  const Table w = launch.args.n_weight ? table_of(launch.weight(0), plan.codec[0]) : Table{};
  enqueue_early(launch, "norm", norm, dim3(unsigned(x.view.cols / shape.group), row_blocks(launch.rows())),
                norm_threads(shape.group), x, y, w, shape, live_rows(plan, launch));
}

}  // namespace tenon::cuda
