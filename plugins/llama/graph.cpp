// graph.cpp: the maths. Llama (arXiv 2302.13971), Qwen2 (arXiv 2407.10671), Qwen3 (arXiv 2505.09388).
#include "llama.hpp"

namespace tenon::llama {

sdk::Limits Llama::limits() const {
  return {.n_layers = p_.n_layers, .width = p_.width, .vocab = p_.vocab, .context = p_.context};
}

sdk::GroupedAttention Llama::attention() const {
  return {.attention = p_.attention,
          .width = p_.width,
          .rope = &p_.rope,
          .query_key_norm = p_.query_key_norm,
          .eps = p_.eps,
          .bias = p_.bias};
}

void Llama::build(const sdk::Graph& g, std::string_view) const {
  sdk::Value x = g.embed_or_overlay("token_embd.weight");
  for (int64_t i = 0; i < p_.n_layers; ++i) {
    const sdk::Block b = g.layer(i, x);
    x = b.add(x, sdk::attention(b, b.rms_norm(x, "attn_norm.weight", p_.eps), attention()));
    x = b.add(x, sdk::feed_forward(b, b.rms_norm(x, "ffn_norm.weight", p_.eps), feed_forward()));
  }
  sdk::finish(g, x, p_.n_layers, p_.eps);
}

}  // namespace tenon::llama
