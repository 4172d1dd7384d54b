// attention on an f32 cache, the fold of split rows, and the choice among the families.
#include "attention.cuh"

namespace tenon::cuda {
namespace {

// Groups of a split row in ascending order: the same fold as in a block that walks them.
__global__ void __launch_bounds__(kAttentionThreads)
    fold_groups(AttentionShape shape, StepRows step, const float* workspace, int32_t max_groups, View o, Live live) {
  const int32_t head = int32_t(blockIdx.x);
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const Sight sight = sight_of(shape, step, r);
    const int64_t keys = group_keys(sight.index + 1);
    const int64_t n = sight.end / keys - sight.begin / keys + 1;
    const float* parts = workspace + (int64_t(r) * shape.heads + head) * max_groups * partial_floats(shape.dim_v);
    Part total;
    clear(total);
    for (int64_t group = 0; group < n && group < max_groups; ++group) {
      const float* from = parts + group * partial_floats(shape.dim_v);
      Part part;
      clear(part);
      for (int i = 0; i < kMaxOwn; ++i) {
        const int c = int(threadIdx.x) + kAttentionThreads * i;
        if (c < shape.dim_v) part.sum[i] = from[c];
      }
      part.largest = from[shape.dim_v], part.total = from[shape.dim_v + 1], part.any = from[shape.dim_v + 2] != 0;
      fold(total, part);
    }
    for (int i = 0; i < kMaxOwn; ++i) {
      const int c = int(threadIdx.x) + kAttentionThreads * i;
      if (c < shape.dim_v) *o.at(r, head * shape.dim_v + c) = total.sum[i] / total.total;
    }
  }
}

}  // namespace

void enqueue_attention_f32(const Launch& launch, const AttentionLaunch& a) {
  enqueue_attention<Codec::kF32>(launch, a);
}

void launch_attention(const OpPlan& plan, const Launch& launch) {
  const tenon_attention_attr& attr = plan.attention;
  const tenon_step& step = launch.step();
  const bool is_split = plan.split_rows > 0 && launch.rows() <= plan.split_rows && plan.max_groups > 1;
  const unsigned rows = row_blocks(launch.rows());
  AttentionLaunch a = {};
  a.shape = {int32_t(attr.heads),
             int32_t(attr.heads / attr.kv_heads),
             int32_t(attr.head_dim),
             int32_t(attr.head_dim_v),
             attr.window,
             attr.scale,
             attr.softcap,
             attr.span_mask != 0};
  a.q = view_of(launch.in(0)), a.o = view_of(launch.out(0)), a.pages = pages_of(plan, launch);
  a.codec_k = plan.codec[0], a.codec_v = plan.codec[1];
  a.step = {array<int32_t>(step.index), array<int32_t>(step.seq), array<int32_t>(step.row_start),
            array<int32_t>(step.span)};
  a.workspace = is_split ? reinterpret_cast<float*>(launch.workspace) : nullptr;
  a.max_groups = int32_t(plan.max_groups);
  a.grid = dim3(attr.heads, rows, is_split ? plan.max_groups : 1);
  a.live = {array<uint32_t>(step.n_rows), launch.rows()};
  if (a.codec_k != a.codec_v || !is_float(a.codec_k)) {
    enqueue_attention_mixed(launch, a);
  } else if (a.codec_k == Codec::kF32) {
    enqueue_attention_f32(launch, a);
  } else {
    enqueue_attention_half(launch, a);
  }
  if (is_split)
    enqueue(launch, "attention: fold", fold_groups, dim3(attr.heads, rows), unsigned(kAttentionThreads), a.shape,
            a.step, static_cast<const float*>(a.workspace), a.max_groups, a.o, a.live);
}

}  // namespace tenon::cuda
