// attention of prompts: the launch.
#include "attention_tile.cuh"

namespace tenon::cuda {

void launch_attention_tile(const OpPlan& plan, const Launch& launch) {
  const tenon_attention_attr& attr = plan.attention;
  const tenon_step& step = launch.step();
  AttentionTileLaunch a = {};
  a.shape = {int32_t(attr.heads), int32_t(attr.heads / attr.kv_heads), int32_t(attr.head_dim), int32_t(attr.head_dim_v),
             attr.window,         attr.scale,                          attr.softcap,           attr.span_mask != 0};
  a.q = half_rows_of(launch.in(0)), a.o = view_of(launch.out(0)), a.pages = pages_of(plan, launch);
  a.step = {array<int32_t>(step.index), array<int32_t>(step.seq), array<int32_t>(step.row_start),
            array<int32_t>(step.span)};
  a.n_seqs = array<uint32_t>(step.n_seqs), a.max_seqs = step.max_seqs;
  a.live = {array<uint32_t>(step.n_rows), launch.rows()};
  if (plan.codec[0] == Codec::kBf16) {
    enqueue_attention_tile_bf16(launch, a);
  } else {
    enqueue_attention_tile_f16(launch, a);
  }
}

}  // namespace tenon::cuda
