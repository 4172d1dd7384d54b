// graph.cpp: the maths. Qwen3 technical report (arXiv 2505.09388) and the released configurations.
#include "qwen3.hpp"

namespace example {

sdk::Limits Qwen3::limits() const {
  return {.n_layers = p_.n_layers, .width = p_.width, .vocab = p_.vocab, .context = p_.context};
}

void Qwen3::build(const sdk::Graph& g, std::string_view) const {
  const sdk::AttentionOptions& a = p_.attention;
  sdk::Value x = g.embed("token_embd.weight");
  for (int64_t i = 0; i < p_.n_layers; ++i) {
    const sdk::Block b = g.layer(i, x);
    sdk::Value h = b.rms_norm(x, "attn_norm.weight", p_.eps);
    auto [q, k, v] = b.linear(h, "attn_q.weight", "attn_k.weight", "attn_v.weight");
    q = b.rope(b.rms_norm(q, "attn_q_norm.weight", p_.eps, a.head_dim), p_.rope);
    k = b.rope(b.rms_norm(k, "attn_k_norm.weight", p_.eps, a.head_dim), p_.rope);
    const sdk::Store cache = b.paged_store(a);
    b.kv_write(cache, k, v, a);
    x = b.add(x, b.linear(b.attention(cache, q, a), "attn_output.weight"));

    h = b.rms_norm(x, "ffn_norm.weight", p_.eps);
    x = b.add(x, sdk::feed_forward(b, h, feed_forward()));
  }
  sdk::finish(g, x, p_.n_layers, p_.eps);  // picks the rows that are asked for, norm, head
}

}  // namespace example
