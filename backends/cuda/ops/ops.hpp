// ops.hpp: the ops of the backend. Each has checks and sizes on the host (accept.cpp) and a launcher beside its device
// code (<op>.cu).
#pragma once

#include <tenon/sdk/plugin.hpp>

#include "op_plan.hpp"

namespace tenon::cuda {

// One launch: the operands, and the stream that everything goes to.
struct Launch {
  const tenon_args& args;
  tenon_addr workspace;
  void* stream;
  bool is_early = false;  // the launch before it on the stream offers to overlap, as this one does
  // Rows that a grid must cover. Live numbers are read on the device: a graph is replayed with other contents.
  uint32_t rows() const { return args.rows; }
  const tenon_view& in(int i) const { return args.in[i]; }
  const tenon_view& out(int i) const { return args.out[i]; }
  const tenon_weight& weight(int i) const { return args.weight[i]; }
  const tenon_store& store(int i) const { return args.store[i]; }
  const tenon_step& step() const { return *args.step; }
};

// Enqueues; throws sdk::Error when a launch is refused by the runtime.
using LaunchFunction = void (*)(const OpPlan&, const Launch&);
void launch_embed(const OpPlan&, const Launch&);
void launch_encode(const OpPlan&, const Launch&);
void launch_norm(const OpPlan&, const Launch&);
void launch_linear(const OpPlan&, const Launch&);
void launch_linear_tile(const OpPlan&, const Launch&);
void launch_linear_q8(const OpPlan&, const Launch&);
void launch_linear_fp8(const OpPlan&, const Launch&);
void launch_linear_bf16(const OpPlan&, const Launch&);
void launch_glu(const OpPlan&, const Launch&);
void launch_gate(const OpPlan&, const Launch&);
void launch_add(const OpPlan&, const Launch&);
void launch_mul(const OpPlan&, const Launch&);
void launch_scale(const OpPlan&, const Launch&);
void launch_softcap(const OpPlan&, const Launch&);
void launch_concat(const OpPlan&, const Launch&);
void launch_rope(const OpPlan&, const Launch&);
void launch_kv_write(const OpPlan&, const Launch&);
void launch_attention(const OpPlan&, const Launch&);
void launch_attention_split(const OpPlan&, const Launch&);
void launch_attention_tile(const OpPlan&, const Launch&);
void launch_short_conv(const OpPlan&, const Launch&);
void launch_delta(const OpPlan&, const Launch&);
void launch_route(const OpPlan&, const Launch&);
void launch_expert_ffn(const OpPlan&, const Launch&);
void launch_expert_ffn_q8(const OpPlan&, const Launch&);
void launch_expert_ffn_tile(const OpPlan&, const Launch&);
void launch_fold_slots(const OpPlan&, const Launch&);
void launch_select_rows(const OpPlan&, const Launch&);
void launch_logits_tail(const OpPlan&, const Launch&);

// Checks of a node: an offer or a reason.
using AcceptFunction = sdk::Offer (*)(const sdk::Node&);
// Fills what the op's launch needs beyond attributes and codecs; gives the workspace in bytes.
using PlanFunction = uint64_t (*)(const sdk::Node&, OpPlan&);

struct OpEntry {
  const char* pattern;
  const char* name;
  const char* numeric_class;
  uint32_t phases;
  size_t attr_bytes;
  AcceptFunction accept;
  LaunchFunction launch;
  PlanFunction plan;  // null: nothing to fill
  int32_t priority = 0;
  bool overlaps = false;  // all its kernels are enqueued by enqueue_early()
  const char* feature = "";  // that the device must have
};
// The checks and plans, in accept.cpp, accept_attention.cpp and accept_experts.cpp.
sdk::Offer accept_embed(const sdk::Node&);
sdk::Offer accept_encode(const sdk::Node&);
sdk::Offer accept_norm(const sdk::Node&);
sdk::Offer accept_linear(const sdk::Node&);
sdk::Offer accept_linear_q8(const sdk::Node&);
sdk::Offer accept_linear_fp8(const sdk::Node&);
sdk::Offer accept_linear_bf16(const sdk::Node&);
sdk::Offer accept_glu(const sdk::Node&);
sdk::Offer accept_gate(const sdk::Node&);
sdk::Offer accept_pair(const sdk::Node&);
sdk::Offer accept_plain(const sdk::Node&);
sdk::Offer accept_rope(const sdk::Node&);
sdk::Offer accept_kv_write(const sdk::Node&);
sdk::Offer accept_attention(const sdk::Node&);
sdk::Offer accept_latent_attention(const sdk::Node&);
sdk::Offer accept_attention_split(const sdk::Node&);
sdk::Offer accept_attention_tile(const sdk::Node&);
sdk::Offer accept_short_conv(const sdk::Node&);
sdk::Offer accept_delta(const sdk::Node&);
sdk::Offer accept_logits_tail(const sdk::Node&);
sdk::Offer accept_route(const sdk::Node&);
sdk::Offer accept_expert_ffn(const sdk::Node&);
sdk::Offer accept_expert_ffn_q8(const sdk::Node&);
sdk::Offer accept_fold_slots(const sdk::Node&);
uint64_t plan_linear_bf16(const sdk::Node&, OpPlan&);
uint64_t plan_attention(const sdk::Node&, OpPlan&);
uint64_t plan_latent_attention(const sdk::Node&, OpPlan&);
uint64_t plan_attention_split(const sdk::Node&, OpPlan&);
uint64_t plan_expert_ffn(const sdk::Node&, OpPlan&);
uint64_t plan_expert_ffn_q8(const sdk::Node&, OpPlan&);

Codec codec_of(uint32_t dtype);  // kNone: device code cannot decode it
bool is_float(Codec codec);      // f32, f16, bf16
inline bool is_fp8(Codec codec) { return codec >= Codec::kFp8 && codec <= Codec::kFp8B128Bf16; }
void register_ops(sdk::Registrar& registrar);

}  // namespace tenon::cuda
