// graph.cpp: the maths, after the released configurations and models.
#include <cmath>

#include "step35.hpp"

namespace tenon::step35 {

Step35::Step35(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {}

sdk::Limits Step35::limits() const {
  return {.n_layers = n_layers(),
          .width = p_.width,
          .vocab = p_.vocab,
          .context = p_.context,
          .n_draft_unused = p_.has_drafts ? p_.n_draft - n_drafts() : 0,
          .n_draft_absent = p_.has_drafts ? 0 : p_.n_draft};
}

std::vector<std::string> Step35::entries() const {
  std::vector<std::string> out;
  if (p_.has_trunk) out.push_back("main");
  for (int64_t i = 0; i < n_drafts(); ++i) out.push_back("draft." + std::to_string(i));
  return out;
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

sdk::Value Step35::layer(const sdk::Block& b, sdk::Value x, const LayerParams& layer) const {
  x = b.add(x, attention(b, b.rms_norm(x, "attn_norm.weight", p_.eps), layer));
  const sdk::Value h = b.rms_norm(x, "ffn_norm.weight", p_.eps);
  return b.add(x, layer.has_experts ? sdk::mixture_of_experts(b, h, experts(layer))
                                    : sdk::feed_forward(b, h, feed_forward(layer)));
}

sdk::NextN Step35::next_n(int64_t draft) const {
  return {.block = n_layers() + draft,
          .width = p_.width,
          .vocab = p_.vocab,
          .head_rows = p_.head_rows[static_cast<size_t>(draft)],
          .eps = p_.eps,
          .passes_normed = false};
}

void Step35::build(const sdk::Graph& g, std::string_view entry) const {
  for (int64_t i = 0; i < n_drafts(); ++i) {
    if (entry != "draft." + std::to_string(i)) continue;
    const auto [b, x] = sdk::begin_next_n(g, next_n(i));
    return sdk::finish_next_n(g, next_n(i), layer(b, x, p_.drafts[static_cast<size_t>(i)]));
  }
  sdk::Value x = g.embed_or_overlay("token_embd.weight");
  for (int64_t i = 0; i < n_layers(); ++i) x = layer(g.layer(i, x), x, p_.layers[static_cast<size_t>(i)]);
  g.tap(x, sdk::kDraftHidden);  // drafts read the rows before the last norm
  sdk::finish(g, x, n_layers(), p_.eps);
}

}  // namespace tenon::step35
