// written.cpp: what a GGUF file of Gemma 3 says.
#include "gemma.hpp"

namespace tenon::gemma {

bool Gemma::written(std::string_view scheme, sdk::Written& w) const {
  constexpr size_t kUsualPattern = 6;  // every sixth layer is global
  if (scheme != "gguf") return false;
  if (p_.attention_divisor != p_.usual_divisor)
    throw sdk::Error(TENON_UNSUPPORTED, sdk::text("gemma3: GGUF files have no place for query_pre_attn_scalar %g, they "
                                                  "mean %g",
                                                  p_.attention_divisor, p_.usual_divisor));
  std::vector<int64_t> kv_heads, ffn;
  std::vector<bool> sliding;
  bool usual = true;
  for (const LayerParams& layer : p_.layers) {
    usual = usual && layer.sliding == ((sliding.size() + 1) % kUsualPattern != 0);
    kv_heads.push_back(layer.kv_heads), ffn.push_back(layer.ffn_width), sliding.push_back(layer.sliding);
  }
  const int64_t head_dim = p_.layers.front().head_dim;
  w.number("block_count", static_cast<int64_t>(p_.layers.size()));
  if (p_.context) w.number("context_length", p_.context);
  w.number("embedding_length", p_.width);
  w.per_layer("feed_forward_length", ffn);
  w.number("attention.head_count", p_.heads);
  w.per_layer("attention.head_count_kv", kv_heads);
  w.number("attention.key_length", head_dim);
  w.number("attention.value_length", head_dim);
  w.real("attention.layer_norm_rms_epsilon", p_.eps);
  w.number("attention.sliding_window", p_.window);
  if (!usual) w.flags("attention.sliding_window_pattern", sliding);
  w.real("rope.freq_base", p_.global_rope.base);
  w.real("rope.freq_base_swa", p_.local_rope.base);
  if (p_.global_rope_factor != 1.0f) {
    w.text("rope.scaling.type", "linear");
    w.real("rope.scaling.factor", p_.global_rope_factor);
  }
  if (p_.final_softcap > 0) w.real("final_logit_softcapping", p_.final_softcap);
  w.global_text("tokenizer.ggml.model", "llama");
  return true;
}

}  // namespace tenon::gemma
