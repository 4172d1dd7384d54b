// graph.cpp: the maths. Gemma 3 technical report (arXiv 2503.19786) and the released configurations.
#include "gemma.hpp"

namespace tenon::gemma {

Gemma::Gemma(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {}

sdk::Limits Gemma::limits() const {
  return {
      .n_layers = static_cast<int64_t>(p_.layers.size()), .width = p_.width, .vocab = p_.vocab, .context = p_.context};
}

sdk::GroupedAttention Gemma::attention(const LayerParams& layer) const {
  return {.attention = {.heads = p_.heads,
                        .kv_heads = layer.kv_heads,
                        .head_dim = layer.head_dim,
                        .window = layer.sliding ? p_.window : 0,
                        .scale = p_.attention_scale,
                        .span_mask = true},
          .width = p_.width,
          .rope = layer.sliding ? &p_.local_rope : &p_.global_rope,
          .query_key_norm = true,
          .eps = p_.eps};
}

sdk::FeedForward Gemma::feed_forward(const LayerParams& layer) const {
  return {.width = p_.width, .inner = layer.ffn_width, .activation = TENON_ACT_GELU_TANH};
}

void Gemma::build(const sdk::Graph& g, std::string_view) const {
  sdk::Value x = g.embed_or_overlay("token_embd.weight", p_.embedding_scale);
  for (size_t i = 0; i < p_.layers.size(); ++i) {
    const sdk::Block b = g.layer(static_cast<int64_t>(i), x);
    // Norms stand on both sides of each branch.
    sdk::Value h = b.rms_norm(x, "attn_norm.weight", p_.eps);
    h = sdk::attention(b, h, attention(p_.layers[i]));
    x = b.add(x, b.rms_norm(h, "post_attention_norm.weight", p_.eps));

    h = b.rms_norm(x, "ffn_norm.weight", p_.eps);
    h = sdk::feed_forward(b, h, feed_forward(p_.layers[i]));
    x = b.add(x, b.rms_norm(h, "post_ffw_norm.weight", p_.eps));
  }
  sdk::finish(g, x, static_cast<int64_t>(p_.layers.size()), p_.eps, p_.final_softcap);
}

}  // namespace tenon::gemma
