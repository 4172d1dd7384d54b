// gemma4_written.cpp: what a GGUF file of Gemma 4 says.
#include "gemma4.hpp"

namespace tenon::gemma {
namespace {

// Head width of local or of global layers; that of the others where there are none.
int64_t head_dim_of(const std::vector<Gemma4Layer>& layers, bool sliding) {
  for (const Gemma4Layer& layer : layers)
    if (layer.sliding == sliding) return layer.head_dim;
  return layers.front().head_dim;
}

}  // namespace

bool Gemma4::written(std::string_view scheme, sdk::Written& w) const {
  if (scheme != "gguf") return false;
  std::vector<int64_t> kv_heads, ffn;
  std::vector<bool> sliding;
  int64_t n_shared = 0;
  for (const Gemma4Layer& layer : p_.layers) {
    kv_heads.push_back(layer.kv_heads), ffn.push_back(layer.ffn_width), sliding.push_back(layer.sliding);
    n_shared += layer.source >= 0;
  }
  const int64_t local = head_dim_of(p_.layers, true), global = head_dim_of(p_.layers, false);
  w.number("block_count", n_layers());
  if (p_.context) w.number("context_length", p_.context);
  w.number("embedding_length", p_.width);
  w.per_layer("feed_forward_length", ffn);
  w.number("attention.head_count", p_.heads);
  w.per_layer("attention.head_count_kv", kv_heads);
  w.number("attention.key_length", global);
  w.number("attention.value_length", global);
  w.number("attention.key_length_swa", local);
  w.number("attention.value_length_swa", local);
  w.real("attention.layer_norm_rms_epsilon", p_.eps);
  w.number("attention.sliding_window", p_.window);
  w.flags("attention.sliding_window_pattern", sliding);
  w.number("attention.shared_kv_layers", n_shared);
  w.number("embedding_length_per_layer_input", p_.layer_embedding);
  w.real("final_logit_softcapping", p_.final_softcap);
  w.real("rope.freq_base", p_.global_rope.base);
  w.real("rope.freq_base_swa", p_.local_rope.base);
  w.number("rope.dimension_count", global);
  w.number("rope.dimension_count_swa", local);
  if (has_experts()) {
    w.number("expert_count", p_.experts.route.n_expert);
    w.number("expert_used_count", p_.experts.route.top_k);
    w.number("expert_feed_forward_length", p_.experts.inner);
  }
  if (p_.global_rope.n_rot)
    w.constant("rope_freqs.weight",
               sdk::frequency_divisors(sdk::inverse_frequencies(p_.global_rope.base, p_.global_rope.n_rot),
                                       p_.global_rope.inv_freq));
  w.global_text("tokenizer.ggml.model", "gemma4");
  return true;
}

}  // namespace tenon::gemma
