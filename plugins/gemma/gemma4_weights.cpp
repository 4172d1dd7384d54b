// gemma4_weights.cpp: what Gemma 4 needs, and what Hugging Face files call it.
#include "gemma4.hpp"

namespace tenon::gemma {

void Gemma4::declare_attention(const sdk::WeightScope& b, const Gemma4Layer& layer) const {
  const int64_t q_rows = p_.heads * layer.head_dim, kv_rows = layer.kv_heads * layer.head_dim;
  b.column("attn_q.weight", {q_rows, p_.width}).heads(p_.heads);
  b.norm("attn_q_norm.weight", layer.head_dim);
  b.row("attn_output.weight", {p_.width, q_rows}).heads(p_.heads);
  if (layer.source >= 0) return;
  b.column("attn_k.weight", {kv_rows, p_.width}).heads(layer.kv_heads).repeat_if_short();
  b.norm("attn_k_norm.weight", layer.head_dim);
  if (!layer.key_is_value) b.column("attn_v.weight", {kv_rows, p_.width}).heads(layer.kv_heads).repeat_if_short();
}

void Gemma4::declare(sdk::Weights& w) const {
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);
  if (!p_.global_rope.divisor.empty()) w.replicated(p_.global_rope.divisor, {1, p_.global_rope.n_rot / 2}).keep_float();
  if (const int64_t own = p_.layer_embedding; own) {
    w.vocab("per_layer_token_embd.weight", {p_.vocab, n_layers() * own});
    w.replicated("per_layer_model_proj.weight", {n_layers() * own, p_.width});
    w.norm("per_layer_proj_norm.weight", own);
  }
  for (int64_t i = 0; i < n_layers(); ++i) declare_layer(w.block(i), p_.layers[static_cast<size_t>(i)]);
}

void Gemma4::declare_layer(const sdk::WeightScope& b, const Gemma4Layer& layer) const {
  b.norm("attn_norm.weight", p_.width);
  declare_attention(b, layer);
  b.norm("post_attention_norm.weight", p_.width);
  b.norm("ffn_norm.weight", p_.width);
  sdk::declare_feed_forward(b, feed_forward(layer));
  b.norm("post_ffw_norm.weight", p_.width);
  if (has_experts()) {
    sdk::declare_mixture_of_experts(b, p_.experts);
    b.norm("ffn_gate_inp.scale", p_.width);
    b.replicated("ffn_down_exps.scale", {1, p_.experts.route.n_expert}).keep_float();
    for (const char* name : {"post_ffw_norm_1.weight", "pre_ffw_norm_2.weight", "post_ffw_norm_2.weight"})
      b.norm(name, p_.width);
  }
  if (p_.layer_embedding) {
    b.replicated("inp_gate.weight", {p_.layer_embedding, p_.width});
    b.replicated("proj.weight", {p_.width, p_.layer_embedding});
    b.norm("post_norm.weight", p_.width);
  }
  b.replicated("layer_output_scale.weight", {1, 1}).keep_float();
}

void Gemma4Assistant::declare(sdk::Weights& w) const {
  Gemma4::declare(w);
  w.replicated("nextn.pre_projection.weight", {p_.width, 2 * p_.target_width}).note("embedding and hidden row joined");
  w.replicated("nextn.post_projection.weight", {p_.target_width, p_.width});
}

bool Gemma4Assistant::names(sdk::NameRules& r) const {
  if (r.scheme() == "hf")
    for (const char* name : {"pre_projection.weight", "post_projection.weight"})
      r.rule(std::string("nextn.") + name, name);
  return Gemma4::names(r);
}

bool Gemma4::names(sdk::NameRules& r) const {
  // Layers that read the keys and values of another may carry their own, unused.
  const auto unused_keys = [&](const std::string& before, const std::string& behind,
                               std::initializer_list<const char*> names) {
    for (int64_t i = 0; i < n_layers(); ++i)
      if (p_.layers[static_cast<size_t>(i)].source >= 0)
        for (const char* name : names) r.unused(before + std::to_string(i) + behind + name);
  };
  // Gate and up of the experts in one tensor, gate first.
  const auto fused_experts = [&](const std::string& source) {
    const int64_t inner = p_.experts.inner;
    r.slice_rows("blk.{i}.ffn_gate_exps.weight", source, 0, inner, 2 * inner);
    r.slice_rows("blk.{i}.ffn_up_exps.weight", source, inner, 2 * inner, 2 * inner);
  };
  if (r.scheme() == "gguf") {
    if (has_experts() && r.has("blk.0.ffn_gate_up_exps.weight")) fused_experts("blk.{i}.ffn_gate_up_exps.weight");
    unused_keys("blk.", ".", {"attn_k.", "attn_v.", "attn_k_norm."});
    return true;
  }
  if (r.scheme() != "hf") return false;

  // Multimodal checkpoints put the text decoder one level deeper; two spellings are in use.
  std::string root = "model.";
  for (const char* deeper : {"model.language_model.", "language_model.model."})
    if (r.has(std::string(deeper) + "embed_tokens.weight")) root = deeper;
  for (const char* other : {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio.",
                            "model.vision_embedder."})
    r.unused(other);
  unused_keys(root + "layers.", ".self_attn.", {"k_proj.", "v_proj.", "k_norm."});

  r.rule("token_embd.weight", root + "embed_tokens.weight");
  r.rule("output.weight", "lm_head.weight");
  r.rule("output_norm.weight", root + "norm.weight");
  r.rule("per_layer_token_embd.weight", root + "embed_tokens_per_layer.weight");
  r.rule("per_layer_model_proj.weight", root + "per_layer_model_projection.weight");
  r.rule("per_layer_proj_norm.weight", root + "per_layer_projection_norm.weight");
  static constexpr const char* kLayer[][2] = {{"attn_norm.weight", "input_layernorm.weight"},
                                              {"attn_q.weight", "self_attn.q_proj.weight"},
                                              {"attn_k.weight", "self_attn.k_proj.weight"},
                                              {"attn_v.weight", "self_attn.v_proj.weight"},
                                              {"attn_output.weight", "self_attn.o_proj.weight"},
                                              {"attn_q_norm.weight", "self_attn.q_norm.weight"},
                                              {"attn_k_norm.weight", "self_attn.k_norm.weight"},
                                              {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                              {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
                                              {"ffn_gate.weight", "mlp.gate_proj.weight"},
                                              {"ffn_up.weight", "mlp.up_proj.weight"},
                                              {"ffn_down.weight", "mlp.down_proj.weight"},
                                              {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
                                              {"inp_gate.weight", "per_layer_input_gate.weight"},
                                              {"proj.weight", "per_layer_projection.weight"},
                                              {"post_norm.weight", "post_per_layer_input_norm.weight"},
                                              {"layer_output_scale.weight", "layer_scalar"},
                                              {"ffn_gate_inp.weight", "router.proj.weight"},
                                              {"ffn_gate_inp.scale", "router.scale"},
                                              {"ffn_down_exps.scale", "router.per_expert_scale"},
                                              {"ffn_down_exps.weight", "experts.down_proj"},
                                              {"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
                                              {"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
                                              {"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"}};
  for (const auto& [canonical, source] : kLayer)
    r.rule(std::string("blk.{i}.") + canonical, root + "layers.{i}." + source);
  if (has_experts()) fused_experts(root + "layers.{i}.experts.gate_up_proj");
  return true;
}

}  // namespace tenon::gemma
