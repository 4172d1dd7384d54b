// norm: a block for each row and group. The sum is cut among threads by the group's width alone, so a row's bits do not
// depend on the launch.
#include "device.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kMaxThreads = 256;

__global__ void norm(View x, View y, const void* w, Codec codec, int32_t group, bool is_mean, float eps, Live live) {
  __shared__ float part[kMaxThreads / kWarp];
  const int32_t begin = int32_t(blockIdx.x) * group;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    float squares = 0;
    for (int32_t c = int32_t(threadIdx.x); c < group; c += int32_t(blockDim.x)) {
      const float value = *x.at(r, begin + c);
      squares = fmaf(value, value, squares);
    }
    squares = warp_sum(squares);
    __syncthreads();  // the row before has been read
    if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = squares;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / kWarp; ++i) sum += part[i];
    if (is_mean) sum /= float(group);
    const float inverse = 1.0f / sqrtf(sum + eps);
    for (int32_t c = int32_t(threadIdx.x); c < group; c += int32_t(blockDim.x)) {
      const float value = *x.at(r, begin + c) * inverse;
      *y.at(r, begin + c) = w ? value * load_float(codec, w, c) : value;
    }
  }
}

}  // namespace

void launch_norm(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  const int32_t group = plan.norm.group ? int32_t(plan.norm.group) : x.cols;
  unsigned threads = blocks_for(group, 4 * kWarp) * kWarp;
  if (threads > kMaxThreads) threads = kMaxThreads;
  const void* w = launch.args.n_weight ? array<void>(launch.weight(0).plane[0]) : nullptr;
  enqueue(launch, "norm", norm, dim3(unsigned(x.cols / group), row_blocks(launch.rows())), threads, x,
          view_of(launch.out(0)), w, plan.codec[0], group, plan.norm.kind == TENON_NORM_RMS, plan.norm.eps,
          live_rows(plan, launch));
}

}  // namespace tenon::cuda
