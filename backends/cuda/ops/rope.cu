// rope: a thread for each pair of a head, or for a column that passes through.
#include "device.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

struct RopeShape {
  int32_t head_dim, pairs, heads;
  bool is_half;
  float magnitude;
  int32_t section1, section2;  // three times the sections of streams 1 and 2
};

// Position stream of pair i, interleaved over three streams.
__device__ int32_t stream_of(const RopeShape& shape, int32_t i) {
  if (i % 3 == 1 && i < shape.section1) return 1;
  if (i % 3 == 2 && i < shape.section2) return 2;
  return 0;
}

__global__ void rope(View x, View y, const void* inv_freq, Codec codec, const int32_t* position, int64_t stream_step,
                     RopeShape shape, Live live) {
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
    const int32_t first = head + (shape.is_half ? i : 2 * i);
    const int32_t second = head + (shape.is_half ? i + shape.pairs : 2 * i + 1);
    // Rounded to f32: what models were trained with.
    const float angle = float(position[stream_of(shape, i) * stream_step + r]) * load_float(codec, inv_freq, i);
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    sine *= shape.magnitude, cosine *= shape.magnitude;
    const float a = *x.at(r, first), b = *x.at(r, second);
    *y.at(r, first) = fmaf(a, cosine, -(b * sine));
    *y.at(r, second) = fmaf(a, sine, b * cosine);
  }
}

}  // namespace

void launch_rope(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  const tenon_rope_attr& attr = plan.rope;
  const RopeShape shape = {
      int32_t(attr.head_dim),        int32_t(attr.n_rot / 2), int32_t(x.cols / int64_t(attr.head_dim)),
      attr.style == TENON_ROPE_HALF, attr.magnitude,          int32_t(3 * attr.sections[1]),
      int32_t(3 * attr.sections[2])};
  const unsigned units = unsigned((shape.head_dim - shape.pairs) * shape.heads);
  enqueue(launch, "rope", rope, dim3(blocks_for(units, kThreads), row_blocks(launch.rows())), kThreads, x,
          view_of(launch.out(0)), array<void>(launch.weight(0).plane[0]), plan.codec[0],
          array<int32_t>(launch.step().position), int64_t(launch.step().max_rows), shape, live_rows(plan, launch));
}

}  // namespace tenon::cuda
