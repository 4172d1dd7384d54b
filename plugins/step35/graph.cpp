// graph.cpp: the maths, after the released configurations and models.
#include <cmath>

#include "step35.hpp"

namespace tenon::step35 {

Step35::Step35(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {
  const std::string first = std::to_string(n_layers());
  const std::string here =
      meta.is_gguf() ? "blk." + first + ".nextn.eh_proj.weight" : "model.layers." + first + ".eh_proj.weight";
  holds_drafts_ = p_.n_draft > 0 && meta.tensor(here).has_value();
  if (meta.is_gguf() && holds_drafts_ && !meta.tensor("blk.0.attn_norm.weight"))
    throw sdk::Error(TENON_UNSUPPORTED,
                     "tensor blk.0.attn_norm.weight: missing; the file holds draft blocks alone, which do not "
                     "run without the file of the trunk");
}

sdk::Limits Step35::limits() const {
  return {.n_layers = n_layers(),
          .width = p_.width,
          .vocab = p_.vocab,
          .context = p_.context,
          .n_draft_unused = holds_drafts_ ? p_.n_draft : 0};
}

sdk::AttentionOptions Step35::attention_options(const LayerParams& layer) const {
  return {.heads = layer.heads,
          .kv_heads = layer.kv_heads,
          .head_dim = p_.head_dim,
          .window = layer.sliding ? p_.window : 0,
          .scale = 1.0f / std::sqrt(static_cast<float>(p_.head_dim))};
}

sdk::FeedForward Step35::feed_forward(const LayerParams& layer) const {
  return {.width = p_.width, .inner = p_.ffn_width, .limit = layer.dense_limit};
}

sdk::MixtureOfExperts Step35::experts(const LayerParams& layer) const {
  sdk::MixtureOfExperts out = p_.experts;
  out.expert.limit = layer.expert_limit, out.shared_limit = layer.dense_limit;
  return out;
}

sdk::Value Step35::attention(const sdk::Block& b, sdk::Value u, const LayerParams& layer) const {
  const sdk::AttentionOptions a = attention_options(layer);
  const sdk::Rope& rope = layer.sliding ? p_.local_rope : p_.global_rope;
  const sdk::Store store = b.paged_store(a);
  auto [q, k, v, gate] = b.linear(u, "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_gate.weight");
  q = b.rope(b.rms_norm(q, "attn_q_norm.weight", p_.eps, a.head_dim), rope);
  k = b.rope(b.rms_norm(k, "attn_k_norm.weight", p_.eps, a.head_dim), rope);
  b.kv_write(store, k, v, a);
  const sdk::Value out = b.gate(b.attention(store, q, a), gate, TENON_ACT_SIGMOID, a.head_dim);
  return b.linear(out, "attn_output.weight");
}

void Step35::build(const sdk::Graph& g, std::string_view) const {
  sdk::Value x = g.embed("token_embd.weight");
  for (int64_t i = 0; i < n_layers(); ++i) {
    const LayerParams& layer = p_.layers[static_cast<size_t>(i)];
    const sdk::Block b = g.layer(i, x);
    x = b.add(x, attention(b, b.rms_norm(x, "attn_norm.weight", p_.eps), layer));
    const sdk::Value h = b.rms_norm(x, "ffn_norm.weight", p_.eps);
    x = b.add(x, layer.has_experts ? sdk::mixture_of_experts(b, h, experts(layer))
                                   : sdk::feed_forward(b, h, feed_forward(layer)));
  }
  sdk::finish(g, x, n_layers(), p_.eps);
}

}  // namespace tenon::step35
