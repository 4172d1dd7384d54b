// attention of decode rows: the fold of a row's groups, and the launches.
#include "attention_split.cuh"

namespace tenon::cuda {
namespace {

constexpr int kFoldThreads = 128, kFoldGroups = 128;
constexpr unsigned kWantedBlocks = 528;  // four for every multiprocessor of a large card

// Parts in ascending order, as a block without workspace folds them: the factors of 128 parts at once, then the sums.
// Grid (heads, rows, blocks of columns).
__global__ void __launch_bounds__(kFoldThreads)
    fold_parts(AttentionShape shape, StepRows step, const float* workspace, int32_t max_groups, View o, Live live) {
  __shared__ float largest[kFoldGroups], total[kFoldGroups], old_factor[kFoldGroups], new_factor[kFoldGroups];
  __shared__ float carried;
  const int32_t head = int32_t(blockIdx.x), c = int32_t(blockIdx.z * kFoldThreads + threadIdx.x);
  const int64_t floats = partial_floats(shape.dim_v);
  wait_for_launch_before();
  let_next_launch_begin();
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const Sight sight = sight_of(shape, step, r);
    const int64_t keys = split_group_keys(sight.index + 1, shape.window);
    int64_t n = sight.end / keys - sight.begin / keys + 1;
    if (n > max_groups) n = max_groups;
    const float* parts = workspace + (int64_t(r) * shape.heads + head) * max_groups * floats;
    float sum = 0, weights = 0;
    for (int64_t base = 0; base < n; base += kFoldGroups) {
      const int here = int(n - base < kFoldGroups ? n - base : kFoldGroups), own = int(threadIdx.x);
      const float before = base == 0 ? __uint_as_float(0xff800000u) : carried;
      __syncthreads();  // what was carried and the factors before have been read
      if (own < here) {
        largest[own] = parts[(base + own) * floats + shape.dim_v];
        total[own] = parts[(base + own) * floats + shape.dim_v + 1];
      }
      __syncthreads();
      if (own < here) {
        float so_far = before;
        for (int i = 0; i < own; ++i) so_far = fmaxf(so_far, largest[i]);
        const float both = fold_factors(so_far, largest[own], old_factor[own], new_factor[own]);
        if (own == here - 1) carried = both;
      }
      __syncthreads();
      const float* part = parts + base * floats + c;
      if (c < shape.dim_v) {
#pragma unroll 16
        for (int i = 0; i < here; ++i) sum = fold_number(sum, part[i * floats], old_factor[i], new_factor[i]);
        for (int i = 0; i < here; ++i) weights = fold_number(weights, total[i], old_factor[i], new_factor[i]);
      }
    }
    if (c < shape.dim_v) *o.at(r, head * shape.dim_v + c) = sum / weights;
    __syncthreads();
  }
}

}  // namespace

void launch_attention_split(const OpPlan& plan, const Launch& launch) {
  const tenon_attention_attr& attr = plan.attention;
  const tenon_step& step = launch.step();
  const bool has_parts = launch.rows() <= plan.split_rows && plan.max_groups > 1;
  const unsigned rows = row_blocks(launch.rows());
  const int32_t per_kv = int32_t(attr.heads / attr.kv_heads);
  SplitLaunch a = {};
  a.shape = {int32_t(attr.heads), per_kv,     int32_t(attr.head_dim), int32_t(attr.head_dim_v),
             attr.window,         attr.scale, attr.softcap,           attr.span_mask != 0};
  a.q = view_of(launch.in(0)), a.o = view_of(launch.out(0)), a.pages = pages_of(plan, launch);
  a.step = {array<int32_t>(step.index), array<int32_t>(step.seq), array<int32_t>(step.row_start),
            array<int32_t>(step.span)};
  a.workspace = has_parts ? reinterpret_cast<float*>(launch.workspace) : nullptr;
  a.max_groups = int32_t(plan.max_groups), a.blocks_per_kv = (per_kv + kQueries - 1) / kQueries;
  a.live = {array<uint32_t>(step.n_rows), launch.rows()};
  const unsigned heads = attr.kv_heads * unsigned(a.blocks_per_kv);
  unsigned slots = 1;
  if (has_parts && rows > 0) slots = blocks_for(kWantedBlocks, int64_t(heads) * rows);
  a.grid = dim3(heads, rows, slots < plan.max_groups || !has_parts ? slots : plan.max_groups);
  if (plan.codec[0] == Codec::kBf16) {
    enqueue_attention_split_bf16(launch, a);
  } else {
    enqueue_attention_split_f16(launch, a);
  }
  if (has_parts)
    enqueue_early(launch, "attention: fold", fold_parts, dim3(attr.heads, rows, blocks_for(attr.head_dim_v, kFoldThreads)),
            unsigned(kFoldThreads), a.shape, a.step, static_cast<const float*>(a.workspace), a.max_groups, a.o, a.live);
}

}  // namespace tenon::cuda
