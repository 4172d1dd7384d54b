// weights.cpp: what the model needs, and what Hugging Face files call it.
#include "qwen35.hpp"

namespace tenon::qwen35 {

void Qwen35::declare(sdk::Weights& w) const {
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);
  for (size_t i = 0; i < p_.recurrent.size(); ++i) {
    const sdk::WeightScope b = w.block(static_cast<int64_t>(i));
    b.norm("attn_norm.weight", p_.width);
    if (p_.recurrent[i]) {
      sdk::declare_gated_delta_net(b, delta_net());
    } else {
      sdk::declare_attention(b, attention());
    }
    b.norm("post_attention_norm.weight", p_.width);
    if (p_.experts) {
      sdk::declare_mixture_of_experts(b, *p_.experts);
    } else {
      sdk::declare_feed_forward(b, feed_forward());
    }
  }
}

namespace {

// Gate and up of every expert in one tensor, gate first.
void fused_experts(sdk::NameRules& r, const std::string& source, const sdk::MixtureOfExperts& o) {
  r.slice_rows("blk.{i}.ffn_gate_exps.weight", source, 0, o.inner, 2 * o.inner);
  r.slice_rows("blk.{i}.ffn_up_exps.weight", source, o.inner, 2 * o.inner, 2 * o.inner);
}

}  // namespace

void Qwen35::expert_names(sdk::NameRules& r, const std::string& root) const {
  const std::string mlp = root + "layers.{i}.mlp.";
  r.rule("blk.{i}.ffn_gate_inp.weight", mlp + "gate.weight");
  r.rule("blk.{i}.ffn_gate_inp_shexp.weight", mlp + "shared_expert_gate.weight");
  r.rule("blk.{i}.ffn_gate_shexp.weight", mlp + "shared_expert.gate_proj.weight");
  r.rule("blk.{i}.ffn_up_shexp.weight", mlp + "shared_expert.up_proj.weight");
  r.rule("blk.{i}.ffn_down_shexp.weight", mlp + "shared_expert.down_proj.weight");
  if (r.has(root + "layers.0.mlp.experts.gate_up_proj")) {
    fused_experts(r, mlp + "experts.gate_up_proj", *p_.experts);
    r.rule("blk.{i}.ffn_down_exps.weight", mlp + "experts.down_proj");
    return;
  }
  r.stack_experts("blk.{i}.ffn_gate_exps.weight", mlp + "experts.{e}.gate_proj.weight");
  r.stack_experts("blk.{i}.ffn_up_exps.weight", mlp + "experts.{e}.up_proj.weight");
  r.stack_experts("blk.{i}.ffn_down_exps.weight", mlp + "experts.{e}.down_proj.weight");
}

bool Qwen35::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") {
    for (int64_t i = 0; i < p_.n_draft; ++i)
      r.unused(sdk::Weights::block_prefix(static_cast<int64_t>(p_.recurrent.size()) + i));
    if (p_.experts && r.has("blk.0.ffn_gate_up_exps.weight"))
      fused_experts(r, "blk.{i}.ffn_gate_up_exps.weight", *p_.experts);
    return true;
  }
  if (r.scheme() != "hf" || p_.joint_beta_alpha) return false;

  const std::string deeper = "model.language_model.";  // multimodal checkpoints
  const std::string root = r.has(deeper + "embed_tokens.weight") ? deeper : "model.";
  r.unused("mtp.");
  r.unused("model.visual.");
  r.unused("visual.");

  r.rule("token_embd.weight", root + "embed_tokens.weight");
  r.rule("output.weight", "lm_head.weight");
  // Norm weights are stored without the 1 that they are added to, all but the delta net's own.
  r.add_one("output_norm.weight", root + "norm.weight");
  const std::string hf = root + "layers.{i}.";
  r.add_one("blk.{i}.attn_norm.weight", hf + "input_layernorm.weight");
  r.add_one("blk.{i}.post_attention_norm.weight", hf + "post_attention_layernorm.weight");

  r.rule("blk.{i}.attn_q.weight", hf + "self_attn.q_proj.weight");
  r.rule("blk.{i}.attn_k.weight", hf + "self_attn.k_proj.weight");
  r.rule("blk.{i}.attn_v.weight", hf + "self_attn.v_proj.weight");
  r.rule("blk.{i}.attn_output.weight", hf + "self_attn.o_proj.weight");
  r.add_one("blk.{i}.attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.add_one("blk.{i}.attn_k_norm.weight", hf + "self_attn.k_norm.weight");

  r.rule("blk.{i}.attn_qkv.weight", hf + "linear_attn.in_proj_qkv.weight");
  r.rule("blk.{i}.attn_gate.weight", hf + "linear_attn.in_proj_z.weight");
  r.rule("blk.{i}.ssm_beta.weight", hf + "linear_attn.in_proj_b.weight");
  r.rule("blk.{i}.ssm_alpha.weight", hf + "linear_attn.in_proj_a.weight");
  r.reshape("blk.{i}.ssm_conv1d.weight", hf + "linear_attn.conv1d.weight", {delta_net().channels(), p_.conv_taps});
  r.rule("blk.{i}.ssm_dt.bias", hf + "linear_attn.dt_bias");
  r.minus_exp("blk.{i}.ssm_a", hf + "linear_attn.A_log");
  r.rule("blk.{i}.ssm_norm.weight", hf + "linear_attn.norm.weight");
  r.rule("blk.{i}.ssm_out.weight", hf + "linear_attn.out_proj.weight");

  if (p_.experts) {
    expert_names(r, root);
    return true;
  }
  r.rule("blk.{i}.ffn_gate.weight", hf + "mlp.gate_proj.weight");
  r.rule("blk.{i}.ffn_up.weight", hf + "mlp.up_proj.weight");
  r.rule("blk.{i}.ffn_down.weight", hf + "mlp.down_proj.weight");
  return true;
}

}  // namespace tenon::qwen35
