// weights.cpp: what the model needs, and what Hugging Face files call it.
#include "step35.hpp"

namespace tenon::step35 {

void Step35::declare_layer(const sdk::WeightScope& b, const LayerParams& layer) const {
  const int64_t q_rows = layer.heads * p_.head_dim, kv_rows = layer.kv_heads * p_.head_dim;
  b.norm("attn_norm.weight", p_.width);
  b.column("attn_q.weight", {q_rows, p_.width}).heads(layer.heads);
  b.column("attn_k.weight", {kv_rows, p_.width}).heads(layer.kv_heads).repeat_if_short();
  b.column("attn_v.weight", {kv_rows, p_.width}).heads(layer.kv_heads).repeat_if_short();
  b.column("attn_gate.weight", {layer.heads, p_.width}).heads(layer.heads).note("one gate a head");
  b.norm("attn_q_norm.weight", p_.head_dim);
  b.norm("attn_k_norm.weight", p_.head_dim);
  b.row("attn_output.weight", {p_.width, q_rows}).heads(layer.heads);
  b.norm("ffn_norm.weight", p_.width);
  if (layer.has_experts) {
    sdk::declare_mixture_of_experts(b, experts(layer));
  } else {
    sdk::declare_feed_forward(b, feed_forward(layer));
  }
}

void Step35::declare(sdk::Weights& w) const {
  if (!p_.global_rope.divisor.empty())
    w.replicated(p_.global_rope.divisor, {1, p_.head_dim / 2}).keep_float().optional();
  for (int64_t i = 0; i < n_drafts(); ++i) {
    sdk::declare_next_n(w, next_n(i));
    declare_layer(w.block(n_layers() + i).optional(), p_.drafts[static_cast<size_t>(i)]);
  }
  if (!p_.has_trunk) return sdk::declare_draft_head(w, p_.file_head_rows, p_.width);
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  w.norm("output_norm.weight", p_.width);
  w.vocab("output.weight", {p_.vocab, p_.width});
  for (int64_t i = 0; i < n_layers(); ++i) declare_layer(w.block(i), p_.layers[static_cast<size_t>(i)]);
}

bool Step35::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") {
    for (int64_t i = n_drafts(); i < p_.n_draft; ++i) r.unused(sdk::Weights::block_prefix(n_layers() + i));
    return true;
  }
  if (r.scheme() != "hf") return false;

  const std::string deeper = "model.language_model.";  // multimodal checkpoints
  const std::string root = r.has(deeper + "embed_tokens.weight") ? deeper : "model.";
  for (int64_t i = n_drafts(); i < p_.n_draft; ++i) r.unused(root + "layers." + std::to_string(n_layers() + i) + ".");
  for (const char* other :
       {"model.vision_model.", "vision_model.", "model.vit_large_projector.", "vit_large_projector."})
    r.unused(other);

  r.rule("token_embd.weight", root + "embed_tokens.weight");
  r.rule("output.weight", "lm_head.weight");
  // Norm weights are stored without the 1 that they are added to.
  r.add_one("output_norm.weight", root + "norm.weight");
  const std::string hf = root + "layers.{i}.";
  r.add_one("blk.{i}.attn_norm.weight", hf + "input_layernorm.weight");
  r.add_one("blk.{i}.ffn_norm.weight", hf + "post_attention_layernorm.weight");
  r.add_one("blk.{i}.attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.add_one("blk.{i}.attn_k_norm.weight", hf + "self_attn.k_norm.weight");
  r.add_one("blk.{i}.nextn.enorm.weight", hf + "enorm.weight");
  r.add_one("blk.{i}.nextn.hnorm.weight", hf + "hnorm.weight");
  r.add_one("blk.{i}.nextn.shared_head_norm.weight", hf + "transformer.shared_head.norm.weight");
  static constexpr const char* kLayer[][2] = {
      {"attn_q.weight", "self_attn.q_proj.weight"},
      {"attn_k.weight", "self_attn.k_proj.weight"},
      {"attn_v.weight", "self_attn.v_proj.weight"},
      {"attn_output.weight", "self_attn.o_proj.weight"},
      {"attn_gate.weight", "self_attn.g_proj.weight"},
      {"ffn_gate.weight", "mlp.gate_proj.weight"},
      {"ffn_up.weight", "mlp.up_proj.weight"},
      {"ffn_down.weight", "mlp.down_proj.weight"},
      {"ffn_gate_inp.weight", "moe.gate.weight"},
      {"exp_probs_b.bias", "moe.router_bias"},
      {"ffn_gate_exps.weight", "moe.gate_proj.weight"},
      {"ffn_up_exps.weight", "moe.up_proj.weight"},
      {"ffn_down_exps.weight", "moe.down_proj.weight"},
      {"ffn_gate_shexp.weight", "share_expert.gate_proj.weight"},
      {"ffn_up_shexp.weight", "share_expert.up_proj.weight"},
      {"ffn_down_shexp.weight", "share_expert.down_proj.weight"},
      {"nextn.eh_proj.weight", "eh_proj.weight"},
      {"nextn.embed_tokens.weight", "embed_tokens.weight"},
      {"nextn.shared_head_head.weight", "transformer.shared_head.output.weight"}};
  for (const auto& [canonical, source] : kLayer) r.rule(std::string("blk.{i}.") + canonical, hf + source);
  return true;
}

}  // namespace tenon::step35
