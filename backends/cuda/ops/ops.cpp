// The table of ops and the kernel class that serves its rows.
#include "ops.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "../runtime.hpp"
#include "pack.hpp"
#include "packed.hpp"

namespace tenon::cuda {
namespace {

constexpr uint32_t kBoth = TENON_PHASE_DECODE | TENON_PHASE_PREFILL;

constexpr OpEntry kEntries[] = {
    {"embed", "cuda.embed", "cuda.embed", kBoth, sizeof(tenon_embed_attr), accept_embed, launch_embed, nullptr},
    {"encode", "cuda.encode", "cuda.encode", kBoth, sizeof(tenon_encode_attr), accept_encode, launch_encode, nullptr, 0, true},
    {"norm", "cuda.norm", "cuda.norm", kBoth, sizeof(tenon_norm_attr), accept_norm, launch_norm, nullptr, 0, true},
    {"linear", "cuda.linear", "cuda.linear.f32.warp", TENON_PHASE_DECODE, 0, accept_linear, launch_linear, nullptr},
    {"linear", "cuda.linear.q8", "cuda.linear.q8", kBoth, 0, accept_linear_q8, launch_linear_q8, nullptr, 10,
     true},
    {"linear", "cuda.linear.fp8", "cuda.linear.fp8", TENON_PHASE_DECODE, 0, accept_linear_fp8, launch_linear_fp8,
     nullptr, 10},
    {"linear", "cuda.linear.tile", "cuda.linear.f32.tile", TENON_PHASE_PREFILL, 0, accept_linear, launch_linear_tile,
     nullptr},
    {"linear", "cuda.linear.bf16", "cuda.linear.bf16", TENON_PHASE_PREFILL, 0, accept_linear_bf16, launch_linear_bf16,
     plan_linear_bf16, 10, false, "sm_90a"},
    {"glu", "cuda.glu", "cuda.glu", kBoth, sizeof(tenon_glu_attr), accept_glu, launch_glu, nullptr, 0, true},
    {"gate", "cuda.gate", "cuda.gate", kBoth, sizeof(tenon_gate_attr), accept_gate, launch_gate, nullptr, 0, true},
    {"add", "cuda.add", "cuda.add", kBoth, 0, accept_pair, launch_add, nullptr, 0, true},
    {"mul", "cuda.mul", "cuda.mul", kBoth, 0, accept_pair, launch_mul, nullptr, 0, true},
    {"scale", "cuda.scale", "cuda.scale", kBoth, sizeof(tenon_scale_attr), accept_plain, launch_scale, nullptr, 0, true},
    {"softcap", "cuda.softcap", "cuda.softcap", kBoth, sizeof(tenon_scale_attr), accept_plain, launch_softcap, nullptr, 0, true},
    {"concat", "cuda.concat", "cuda.concat", kBoth, 0, accept_plain, launch_concat, nullptr, 0, true},
    {"rope", "cuda.rope", "cuda.rope", kBoth, sizeof(tenon_rope_attr), accept_rope, launch_rope, nullptr, 0, true},
    {"kv_write", "cuda.kv_write", "cuda.kv_write", kBoth, sizeof(tenon_kv_write_attr), accept_kv_write, launch_kv_write,
     nullptr, 0, true},
    {"attention", "cuda.attention", "cuda.attention", kBoth, sizeof(tenon_attention_attr), accept_attention,
     launch_attention, plan_attention},
    {"latent_attention", "cuda.latent_attention", "cuda.latent_attention", kBoth, sizeof(tenon_latent_attention_attr),
     accept_latent_attention, launch_attention, plan_latent_attention},
    {"attention", "cuda.attention.split", "cuda.attention.split", TENON_PHASE_DECODE, sizeof(tenon_attention_attr),
     accept_attention_split, launch_attention_split, plan_attention_split, 10, true},
    {"attention", "cuda.attention.tile", "cuda.attention.tile", TENON_PHASE_PREFILL, sizeof(tenon_attention_attr),
     accept_attention_tile, launch_attention_tile, nullptr, 10},
    {"short_conv", "cuda.short_conv", "cuda.short_conv", kBoth, sizeof(tenon_short_conv_attr), accept_short_conv,
     launch_short_conv, nullptr, 0, true},
    {"gated_delta_rule", "cuda.gated_delta_rule", "cuda.gated_delta_rule.sequential", kBoth,
     sizeof(tenon_gated_delta_rule_attr), accept_delta, launch_delta, nullptr, 0, true},
    {"route", "cuda.route", "cuda.route", kBoth, sizeof(tenon_route_attr), accept_route, launch_route, nullptr, 0,
     true},
    {"expert_ffn", "cuda.expert_ffn", "cuda.expert_ffn.f32.warp", TENON_PHASE_DECODE, sizeof(tenon_expert_ffn_attr),
     accept_expert_ffn, launch_expert_ffn, plan_expert_ffn},
    {"expert_ffn", "cuda.expert_ffn.q8", "cuda.expert_ffn.q8", TENON_PHASE_DECODE, sizeof(tenon_expert_ffn_attr),
     accept_expert_ffn_q8, launch_expert_ffn_q8, plan_expert_ffn_q8, 10, true},
    {"expert_ffn", "cuda.expert_ffn.tile", "cuda.expert_ffn.f32.tile", TENON_PHASE_PREFILL,
     sizeof(tenon_expert_ffn_attr), accept_expert_ffn, launch_expert_ffn_tile, plan_expert_ffn},
    {"fold_slots", "cuda.fold_slots", "cuda.fold_slots", kBoth, 0, accept_fold_slots, launch_fold_slots, nullptr},
    {"select_rows", "cuda.select_rows", "cuda.select_rows", kBoth, 0, accept_plain, launch_select_rows, nullptr},
    {"logits_tail", "cuda.logits_tail", "cuda.logits_tail", kBoth, sizeof(tenon_scale_attr), accept_logits_tail,
     launch_logits_tail, nullptr},
};

class OpKernel final : public sdk::Kernel {
 public:
  explicit OpKernel(const OpEntry& entry) : entry_(entry) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override {
    for (const tenon_weight& w : node.weights()) {
      if (w.parts > 1) return sdk::refuse("reads weights without parts, not %u", w.parts);
      if (w.n_expert > 0 && node.op() != TENON_OP_EXPERT_FFN) return sdk::refuse("reads plain weights, not experts");
      if (w.layout != 0 && w.layout != kPackedLayout) return sdk::refuse("knows no packed form %u", w.layout);
    }
    sdk::Offer offer = entry_.accept(node).row_exact().capturable();
    return entry_.overlaps && device.table().compute_major >= 9 ? offer.flag(TENON_OFFER_PDL) : offer;
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override {
    tenon_pack& pack = *slice.table;
    if (pack.dst) return pack_weight(pack);
    pack.bytes = uint64_t(packed_shape(codec_of(pack.src->dtype), pack.src->rows, pack.src->cols).bytes());
    pack.align = 256, pack.tail_pad = 0;
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto op = std::make_unique<OpPlan>();
    std::memset(static_cast<void*>(op.get()), 0, sizeof *op);
    if (const void* attr = node.table().attr) {
      const uint32_t bytes = *static_cast<const uint32_t*>(attr);
      std::memcpy(&op->embed, attr, std::min<size_t>(bytes, entry_.attr_bytes));
    }
    op->op = node.op(), op->phase = node.table().phase, op->max_rows = request.max_rows;
    op->max_context = request.max_context;
    op->domain = node.out().empty() ? uint32_t(TENON_DOMAIN_TOKENS) : node.out()[0].domain;
    for (size_t i = 0; i < std::min<size_t>(4, node.weights().size()); ++i)
      op->codec[i] = codec_of(node.weights()[i].dtype);
    if (!node.stores().empty()) {
      op->store = node.stores()[0];
      if (op->store.kind == TENON_STORE_PAGED)
        op->codec[0] = codec_of(op->store.dtype_k), op->codec[1] = codec_of(op->store.dtype_v);
      if (op->store.kind == TENON_STORE_LATENT) op->codec[0] = op->codec[1] = codec_of(op->store.dtype_k);
    }
    plan.partition = TENON_PART_ONE;
    plan.workspace = entry_.plan ? entry_.plan(node, *op) : 0;
    plan.impl = op.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const tenon_exec& exec = worker.table();
    use_device_of(exec.stream);
    entry_.launch(*static_cast<const OpPlan*>(plan.impl), {args.table(), exec.workspace, exec.stream, (exec.flags & TENON_OFFER_PDL) != 0});
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<OpPlan>(static_cast<OpPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  const OpEntry& entry_;
};

}  // namespace

void register_ops(sdk::Registrar& registrar) {
  for (const OpEntry& entry : kEntries) {
    sdk::KernelInfo info;
    info.backend = "cuda", info.pattern = entry.pattern, info.numeric_class = entry.numeric_class;
    info.phases = entry.phases, info.priority = entry.priority, info.feature = entry.feature;
    registrar.kernel<OpKernel>(entry.name, info, entry);
  }
}

}  // namespace tenon::cuda
