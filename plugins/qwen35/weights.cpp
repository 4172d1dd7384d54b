// weights.cpp: what the model needs, and what Hugging Face files call it.
#include "qwen35.hpp"

namespace tenon::qwen35 {

void Qwen35::declare_layer(const sdk::WeightScope& b, bool recurrent) const {
  b.norm("attn_norm.weight", p_.width);
  if (recurrent) {
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

void Qwen35::declare(sdk::Weights& w) const {
  if (p_.has_draft) {
    sdk::declare_next_n(w, next_n());
    declare_layer(w.block(n_layers()).optional(), false);
  }
  if (!p_.has_trunk) return sdk::declare_draft_head(w, p_.file_head_rows, p_.width);
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);
  for (int64_t i = 0; i < n_layers(); ++i) declare_layer(w.block(i), p_.recurrent[static_cast<size_t>(i)]);
}

namespace {

// Gate and up of every expert in one tensor, gate first.
void fused_experts(sdk::NameRules& r, const std::string& block, const std::string& source,
                   const sdk::MixtureOfExperts& o) {
  r.slice_rows(block + "ffn_gate_exps.weight", source, 0, o.inner, 2 * o.inner);
  r.slice_rows(block + "ffn_up_exps.weight", source, o.inner, 2 * o.inner, 2 * o.inner);
}

}  // namespace

bool Qwen35::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") {
    for (int64_t i = 1; i < p_.n_draft; ++i) r.unused(sdk::Weights::block_prefix(n_layers() + i));
    const std::string any = sdk::Weights::block_prefix(p_.has_trunk ? 0 : n_layers());
    if (p_.experts && r.has(any + "ffn_gate_up_exps.weight"))
      fused_experts(r, "blk.{i}.", "blk.{i}.ffn_gate_up_exps.weight", *p_.experts);
    return true;
  }
  if (r.scheme() != "hf" || p_.joint_beta_alpha) return false;

  const std::string deeper = "model.language_model.";  // multimodal checkpoints
  const std::string root = r.has(deeper + "embed_tokens.weight") ? deeper : "model.";
  r.unused("model.visual.");
  r.unused("visual.");

  // The draft's rules first, since those of the trunk fit its canonical names as well.
  const std::string draft = sdk::Weights::block_prefix(n_layers());
  r.rule(draft + "nextn.eh_proj.weight", "mtp.fc.weight");
  r.add_one(draft + "nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight");
  r.add_one(draft + "nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight");
  r.add_one(draft + "nextn.shared_head_norm.weight", "mtp.norm.weight");
  r.rule(draft + "nextn.shared_head_head.weight", "mtp.lm_head.weight");
  r.rule(draft + "nextn.embed_tokens.weight", "mtp.embed_tokens.weight");
  layer_names(r, draft, "mtp.layers.0.", r.has("mtp.layers.0.mlp.experts.gate_up_proj"));
  for (int64_t i = 1; i < p_.n_draft; ++i) r.unused("mtp.layers." + std::to_string(i) + ".");

  r.rule("token_embd.weight", root + "embed_tokens.weight");
  r.rule("output.weight", "lm_head.weight");
  // Norm weights are stored without the 1 that they are added to, all but the delta net's own.
  r.add_one("output_norm.weight", root + "norm.weight");
  layer_names(r, "blk.{i}.", root + "layers.{i}.", r.has(root + "layers.0.mlp.experts.gate_up_proj"));
  return true;
}

// Of a layer of any kind. `fused`: gate and up of all experts are one tensor.
void Qwen35::layer_names(sdk::NameRules& r, const std::string& canonical, const std::string& hf, bool fused) const {
  r.add_one(canonical + "attn_norm.weight", hf + "input_layernorm.weight");
  r.add_one(canonical + "post_attention_norm.weight", hf + "post_attention_layernorm.weight");
  r.add_one(canonical + "attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.add_one(canonical + "attn_k_norm.weight", hf + "self_attn.k_norm.weight");
  r.reshape(canonical + "ssm_conv1d.weight", hf + "linear_attn.conv1d.weight", {delta_net().channels(), p_.conv_taps});
  r.minus_exp(canonical + "ssm_a", hf + "linear_attn.A_log");
  static constexpr const char* kSame[][2] = {{"attn_q.weight", "self_attn.q_proj.weight"},
                                             {"attn_k.weight", "self_attn.k_proj.weight"},
                                             {"attn_v.weight", "self_attn.v_proj.weight"},
                                             {"attn_output.weight", "self_attn.o_proj.weight"},
                                             {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
                                             {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
                                             {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
                                             {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
                                             {"ssm_dt.bias", "linear_attn.dt_bias"},
                                             {"ssm_norm.weight", "linear_attn.norm.weight"},
                                             {"ssm_out.weight", "linear_attn.out_proj.weight"},
                                             {"ffn_gate.weight", "mlp.gate_proj.weight"},
                                             {"ffn_up.weight", "mlp.up_proj.weight"},
                                             {"ffn_down.weight", "mlp.down_proj.weight"},
                                             {"ffn_gate_inp.weight", "mlp.gate.weight"},
                                             {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
                                             {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
                                             {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
                                             {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"}};
  for (const auto& [name, source] : kSame) r.rule(canonical + name, hf + source);
  if (!p_.experts) return;
  const std::string experts = hf + "mlp.experts.";
  if (fused) {
    fused_experts(r, canonical, experts + "gate_up_proj", *p_.experts);
    r.rule(canonical + "ffn_down_exps.weight", experts + "down_proj");
    return;
  }
  r.stack_experts(canonical + "ffn_gate_exps.weight", experts + "{e}.gate_proj.weight");
  r.stack_experts(canonical + "ffn_up_exps.weight", experts + "{e}.up_proj.weight");
  r.stack_experts(canonical + "ffn_down_exps.weight", experts + "{e}.down_proj.weight");
}

}  // namespace tenon::qwen35
