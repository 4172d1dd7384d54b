// weights.cpp: what the model needs, and what Hugging Face files call it.
#include "llama.hpp"

namespace tenon::llama {

void Llama::declare(sdk::Weights& w) const {
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);
  w.replicated(p_.rope.divisor, {1, p_.rope.n_rot / 2}).keep_float().optional();
  for (int64_t i = 0; i < p_.n_layers; ++i) {
    const sdk::WeightScope b = w.block(i);
    b.norm("attn_norm.weight", p_.width);
    sdk::declare_attention(b, attention());
    b.norm("ffn_norm.weight", p_.width);
    sdk::declare_feed_forward(b, feed_forward());
  }
}

bool Llama::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") return true;
  if (r.scheme() != "hf") return false;
  for (int64_t i = 0; i < p_.n_layers; ++i)  // buffers of old exports
    r.unused("model.layers." + std::to_string(i) + ".self_attn.rotary_emb.");

  r.rule("token_embd.weight", "model.embed_tokens.weight");
  r.rule("output_norm.weight", "model.norm.weight");
  r.rule("output.weight", "lm_head.weight");
  const std::string hf = "model.layers.{i}.";
  r.rule("blk.{i}.attn_norm.weight", hf + "input_layernorm.weight");
  for (const char* projection : {"q", "k", "v"})
    for (const char* part : {".weight", ".bias"})
      r.rule(std::string("blk.{i}.attn_") + projection + part, hf + "self_attn." + projection + "_proj" + part);
  r.rule("blk.{i}.attn_output.weight", hf + "self_attn.o_proj.weight");
  r.rule("blk.{i}.attn_output.bias", hf + "self_attn.o_proj.bias");
  r.rule("blk.{i}.attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.rule("blk.{i}.attn_k_norm.weight", hf + "self_attn.k_norm.weight");
  r.rule("blk.{i}.ffn_norm.weight", hf + "post_attention_layernorm.weight");
  r.rule("blk.{i}.ffn_gate.weight", hf + "mlp.gate_proj.weight");
  r.rule("blk.{i}.ffn_up.weight", hf + "mlp.up_proj.weight");
  r.rule("blk.{i}.ffn_down.weight", hf + "mlp.down_proj.weight");
  return true;
}

}  // namespace tenon::llama
