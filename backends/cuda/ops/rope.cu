// rope: a thread for each pair of a head, or for a column that passes through.
#include "rope.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

__global__ void rope(View x, View y, Angles angles, RopeShape shape, Live live) {
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t units = shape.head_dim - shape.pairs;  // of a head: pairs, then columns that pass
  const int32_t unit = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (unit >= units * shape.heads) return;
  const int32_t head = unit / units * shape.head_dim, i = unit % units;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    if (i >= shape.pairs) {
      *y.at(r, head + shape.pairs + i) = *x.at(r, head + shape.pairs + i);
      continue;
    }
    const int32_t first = head + first_of(shape, i), second = head + second_of(shape, i);
    const Turn turn = turn_of(shape, angles, r, i);
    const float a = *x.at(r, first), b = *x.at(r, second);
    *y.at(r, first) = turn.first(a, b);
    *y.at(r, second) = turn.second(a, b);
  }
}

}  // namespace

void launch_rope(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  const RopeShape shape = rope_shape(plan.rope, x.cols);
  const Angles angles = {array<void>(launch.weight(0).plane[0]), plan.codec[0], array<int32_t>(launch.step().position),
                         int64_t(launch.step().max_rows)};
  const unsigned units = unsigned((shape.head_dim - shape.pairs) * shape.heads);
  enqueue_early(launch, "rope", rope, dim3(blocks_for(units, kThreads), row_blocks(launch.rows())), kThreads, x,
                view_of(launch.out(0)), angles, shape, live_rows(plan, launch));
}

}  // namespace tenon::cuda
