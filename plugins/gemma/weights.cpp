// weights.cpp: what the model needs, and what Hugging Face files call it.
#include "gemma.hpp"

namespace tenon::gemma {

void Gemma::declare(sdk::Weights& w) const {
  w.vocab("token_embd.weight", {p_.vocab, p_.width});
  sdk::declare_head(w, p_.vocab, p_.width);
  for (size_t i = 0; i < p_.layers.size(); ++i) {
    const sdk::WeightScope b = w.block(static_cast<int64_t>(i));
    b.norm("attn_norm.weight", p_.width);
    sdk::declare_attention(b, attention(p_.layers[i]));
    b.norm("post_attention_norm.weight", p_.width);
    b.norm("ffn_norm.weight", p_.width);
    sdk::declare_feed_forward(b, feed_forward(p_.layers[i]));
    b.norm("post_ffw_norm.weight", p_.width);
  }
}

bool Gemma::names(sdk::NameRules& r) const {
  if (r.scheme() == "gguf") {
    r.unused("rope_freqs.");  // derived from the parameters here
    r.unused("v.");           // a vision tower inside the file
    r.unused("mm.");
    return true;
  }
  if (r.scheme() != "hf") return false;

  // Multimodal checkpoints put the text decoder one level deeper; two spellings are in use.
  std::string root = "model.";
  for (const char* deeper : {"model.language_model.", "language_model.model."})
    if (r.has(std::string(deeper) + "embed_tokens.weight")) root = deeper;
  for (const char* other :
       {"model.vision_tower.", "vision_tower.", "model.multi_modal_projector.", "multi_modal_projector."})
    r.unused(other);

  r.rule("token_embd.weight", root + "embed_tokens.weight");
  r.rule("output.weight", "lm_head.weight");
  // Norm weights are stored without the 1 that they are added to.
  r.add_one("output_norm.weight", root + "norm.weight");
  const std::string hf = root + "layers.{i}.";
  r.add_one("blk.{i}.attn_norm.weight", hf + "input_layernorm.weight");
  r.rule("blk.{i}.attn_q.weight", hf + "self_attn.q_proj.weight");
  r.rule("blk.{i}.attn_k.weight", hf + "self_attn.k_proj.weight");
  r.rule("blk.{i}.attn_v.weight", hf + "self_attn.v_proj.weight");
  r.rule("blk.{i}.attn_output.weight", hf + "self_attn.o_proj.weight");
  r.add_one("blk.{i}.attn_q_norm.weight", hf + "self_attn.q_norm.weight");
  r.add_one("blk.{i}.attn_k_norm.weight", hf + "self_attn.k_norm.weight");
  r.add_one("blk.{i}.post_attention_norm.weight", hf + "post_attention_layernorm.weight");
  r.add_one("blk.{i}.ffn_norm.weight", hf + "pre_feedforward_layernorm.weight");
  r.rule("blk.{i}.ffn_gate.weight", hf + "mlp.gate_proj.weight");
  r.rule("blk.{i}.ffn_up.weight", hf + "mlp.up_proj.weight");
  r.rule("blk.{i}.ffn_down.weight", hf + "mlp.down_proj.weight");
  r.add_one("blk.{i}.post_ffw_norm.weight", hf + "post_feedforward_layernorm.weight");
  return true;
}

}  // namespace tenon::gemma
