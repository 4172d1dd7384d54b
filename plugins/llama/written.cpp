// written.cpp: what a GGUF file of such a model says.
#include "llama.hpp"

namespace tenon::llama {

bool Llama::written(std::string_view scheme, sdk::Written& w) const {
  if (scheme != "gguf") return false;
  if (p_.rope_scaling == "yarn") throw sdk::Error(TENON_UNSUPPORTED, p_.id + ": YaRN's scaling is not written to GGUF");
  const sdk::AttentionOptions& a = p_.attention;
  w.number("block_count", p_.n_layers);
  if (p_.context) w.number("context_length", p_.context);
  w.number("embedding_length", p_.width);
  w.number("feed_forward_length", p_.ffn_width);
  w.number("attention.head_count", a.heads);
  w.number("attention.head_count_kv", a.kv_heads);
  w.number("attention.key_length", a.head_dim);
  w.number("attention.value_length", a.head_dim);
  w.real("attention.layer_norm_rms_epsilon", p_.eps);
  if (a.window) w.number("attention.sliding_window", a.window);
  w.number("vocab_size", p_.vocab);
  w.number("rope.dimension_count", p_.rope.n_rot);
  w.real("rope.freq_base", p_.rope.base);
  if (p_.rope_scaling == "linear") {
    w.text("rope.scaling.type", "linear");
    w.real("rope.scaling.factor", p_.rope_factor);
  } else if (p_.rope_scaling == "llama3") {
    w.constant(p_.rope.divisor, sdk::frequency_divisors(sdk::inverse_frequencies(p_.rope.base, p_.rope.n_rot),
                                                        p_.rope.inv_freq));
  }
  if (p_.id != "llama") return true;
  // Files of Llama have neighbours as rotary pairs, where a config's have the two halves of a head.
  if (p_.rope.n_rot != a.head_dim)
    throw sdk::Error(TENON_UNSUPPORTED, "llama: heads that turn in part are not written to GGUF");
  for (const auto& [name, heads] : {std::pair{"q", a.heads}, {"k", a.kv_heads}}) {
    const std::string projection = std::string("blk.{i}.attn_") + name;
    w.reorder_rows(projection + ".weight", 0, heads, 2, a.head_dim / 2, 1);
    w.reorder_cols(projection + ".bias", 0, heads, 2, a.head_dim / 2, 1);
  }
  return true;
}

}  // namespace tenon::llama
