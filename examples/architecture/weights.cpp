// weights.cpp: what the model needs, how it may be cut over devices, and what Hugging Face files call it.
#include "qwen3.hpp"

namespace example {

void Qwen3::declare(sdk::Weights& w) const {
  const int64_t q_rows = p_.attention.heads * p_.attention.head_dim;
  const int64_t kv_rows = p_.attention.kv_heads * p_.attention.head_dim;
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);  // output_norm, and output, which may be the embedding
  for (int64_t i = 0; i < p_.n_layers; ++i) {
    const sdk::WeightScope b = w.block(i);
    b.norm("attn_norm.weight", p_.width);
    b.column("attn_q.weight", {q_rows, p_.width}).heads(p_.attention.heads);
    b.column("attn_k.weight", {kv_rows, p_.width}).heads(p_.attention.kv_heads).repeat_if_short();
    b.column("attn_v.weight", {kv_rows, p_.width}).heads(p_.attention.kv_heads).repeat_if_short();
    b.norm("attn_q_norm.weight", p_.attention.head_dim);
    b.norm("attn_k_norm.weight", p_.attention.head_dim);
    b.row("attn_output.weight", {p_.width, q_rows}).heads(p_.attention.heads);
    b.norm("ffn_norm.weight", p_.width);
    sdk::declare_feed_forward(b, feed_forward());
  }
}

bool Qwen3::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") return true;  // the names above are GGUF's
  if (r.scheme() != "hf") return false;
  r.rule("token_embd.weight", "model.embed_tokens.weight");
  r.rule("output_norm.weight", "model.norm.weight");
  r.rule("output.weight", "lm_head.weight");
  const std::string hf = "model.layers.{i}.";
  r.rule("blk.{i}.attn_norm.weight", hf + "input_layernorm.weight");
  r.rule("blk.{i}.attn_q.weight", hf + "self_attn.q_proj.weight");
  r.rule("blk.{i}.attn_k.weight", hf + "self_attn.k_proj.weight");
  r.rule("blk.{i}.attn_v.weight", hf + "self_attn.v_proj.weight");
  r.rule("blk.{i}.attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.rule("blk.{i}.attn_k_norm.weight", hf + "self_attn.k_norm.weight");
  r.rule("blk.{i}.attn_output.weight", hf + "self_attn.o_proj.weight");
  r.rule("blk.{i}.ffn_norm.weight", hf + "post_attention_layernorm.weight");
  r.rule("blk.{i}.ffn_gate.weight", hf + "mlp.gate_proj.weight");
  r.rule("blk.{i}.ffn_up.weight", hf + "mlp.up_proj.weight");
  r.rule("blk.{i}.ffn_down.weight", hf + "mlp.down_proj.weight");
  return true;
}

}  // namespace example
