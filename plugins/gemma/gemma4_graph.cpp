// gemma4_graph.cpp: the maths of Gemma 4, after the released configurations and models.
#include <cmath>

#include "gemma4.hpp"

namespace tenon::gemma {

sdk::Limits Gemma4::limits() const {
  return {.n_layers = n_layers(), .width = p_.width, .vocab = p_.vocab, .context = p_.context};
}

sdk::AttentionOptions Gemma4::attention_options(const Gemma4Layer& layer) const {
  return {.heads = p_.heads,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .window = layer.sliding ? p_.window : 0,
          .scale = 1.0f,  // queries and keys are normed
          .span_mask = p_.span_mask && layer.sliding};
}

sdk::FeedForward Gemma4::feed_forward(const Gemma4Layer& layer) const {
  return {.width = p_.width, .inner = layer.ffn_width, .activation = TENON_ACT_GELU_TANH};
}

namespace {

// What an assistant calls the keys and values of a layer; it reads the last of each kind.
const char* role(const Gemma4Layer& layer) { return layer.sliding ? "local" : "global"; }

}  // namespace

sdk::Value Gemma4::rotated_query(const sdk::Block& b, sdk::Value q, const Gemma4Layer& layer) const {
  q = b.rms_norm(q, "attn_q_norm.weight", p_.eps, layer.head_dim);
  return b.rope(q, layer.sliding ? p_.local_rope : p_.global_rope);
}

// `stores`: those of the layers before; this layer's is added.
sdk::Value Gemma4::attention(const sdk::Block& b, sdk::Value u, const Gemma4Layer& layer,
                             std::vector<sdk::Store>& stores) const {
  const sdk::AttentionOptions a = attention_options(layer);
  const sdk::Rope& rope = layer.sliding ? p_.local_rope : p_.global_rope;
  sdk::Value q, k, v;
  if (layer.source >= 0) {
    q = b.linear(u, "attn_q.weight");
    stores.push_back(b.alias(stores.at(static_cast<size_t>(layer.source)), a));
  } else {
    stores.push_back(b.paged_store(a, role(layer)));
    if (layer.key_is_value) {
      const auto both = b.linear(u, "attn_q.weight", "attn_k.weight");
      q = both[0], k = both[1], v = k;
    } else {
      const auto all = b.linear(u, "attn_q.weight", "attn_k.weight", "attn_v.weight");
      q = all[0], k = all[1], v = all[2];
    }
    k = b.rope(b.rms_norm(k, "attn_k_norm.weight", p_.eps, a.head_dim), rope);
    b.kv_write(stores.back(), k, b.rms_norm(v, p_.eps, a.head_dim), a);
  }
  q = rotated_query(b, q, layer);
  return b.linear(b.attention(stores.back(), q, a), "attn_output.weight");
}

// x entered the layer, h comes from its attention.
sdk::Value Gemma4::behind_attention(const sdk::Block& b, sdk::Value x, sdk::Value h, const Gemma4Layer& layer) const {
  x = b.add(x, b.rms_norm(h, "post_attention_norm.weight", p_.eps));
  return b.add(x, b.rms_norm(feed_forward_and_experts(b, x, layer), "post_ffw_norm.weight", p_.eps));
}

// Both parts read the residual stream: the dense one, and the experts, each under norms of their own. The router reads
// the stream without the norm's weight.
sdk::Value Gemma4::feed_forward_and_experts(const sdk::Block& b, sdk::Value x, const Gemma4Layer& layer) const {
  sdk::Value dense = sdk::feed_forward(b, b.rms_norm(x, "ffn_norm.weight", p_.eps), feed_forward(layer));
  if (!has_experts()) return dense;
  dense = b.rms_norm(dense, "post_ffw_norm_1.weight", p_.eps);
  const sdk::MixtureOfExperts& o = p_.experts;
  const sdk::Value seen =
      b.scale(b.rms_norm(x, "ffn_gate_inp.scale", p_.eps), 1.0f / std::sqrt(static_cast<float>(p_.width)));
  const auto routed = b.route(b.router(seen, "ffn_gate_inp.weight"), o.route, {}, "ffn_down_exps.scale");
  b.tap(routed.ids, "route." + std::to_string(b.index()));
  const sdk::Value chosen = b.expert_ffn(b.rms_norm(x, "pre_ffw_norm_2.weight", p_.eps), routed, "ffn_gate_exps.weight",
                                         "ffn_up_exps.weight", "ffn_down_exps.weight", o.route.top_k, o.expert);
  return b.add(dense, b.rms_norm(chosen, "post_ffw_norm_2.weight", p_.eps));
}

// Of all layers, side by side: the token's own, and what its embedding becomes through a projection.
sdk::Value Gemma4::layer_embeddings(const sdk::Graph& g, sdk::Value x) const {
  const float root = std::sqrt(static_cast<float>(p_.layer_embedding));
  const sdk::Value own = g.embed("per_layer_token_embd.weight", root);
  sdk::Value projected =
      g.scale(g.linear(x, "per_layer_model_proj.weight"), 1.0f / std::sqrt(static_cast<float>(p_.width)));
  projected = g.rms_norm(projected, "per_layer_proj_norm.weight", p_.eps, p_.layer_embedding);
  return g.scale(g.add(projected, own), 1.0f / std::sqrt(2.0f));
}

sdk::Value Gemma4::add_layer_embedding(const sdk::Block& b, sdk::Value x, sdk::Value embeddings) const {
  const sdk::Value own = b.columns(embeddings, b.index() * p_.layer_embedding, p_.layer_embedding);
  sdk::Value h = b.glu(b.linear(x, "inp_gate.weight"), own, TENON_ACT_GELU_TANH);
  h = b.rms_norm(b.linear(h, "proj.weight"), "post_norm.weight", p_.eps);
  return b.add(x, h);
}

void Gemma4::build(const sdk::Graph& g, std::string_view) const {
  const float root = std::sqrt(static_cast<float>(p_.width));
  sdk::Value x = takes_overlay() ? g.embed_or_overlay("token_embd.weight", root) : g.embed("token_embd.weight", root);
  sdk::Value embeddings;
  if (p_.layer_embedding) embeddings = layer_embeddings(g, x);
  std::vector<sdk::Store> stores;
  for (int64_t i = 0; i < n_layers(); ++i) {
    const Gemma4Layer& layer = p_.layers[static_cast<size_t>(i)];
    const sdk::Block b = g.layer(i, x);
    const sdk::Value h = attention(b, b.rms_norm(x, "attn_norm.weight", p_.eps), layer, stores);
    x = behind_attention(b, x, h, layer);
    if (p_.layer_embedding) x = add_layer_embedding(b, x, embeddings);
    x = b.mul_weight(x, "layer_output_scale.weight");
  }
  x = sdk::finish(g, x, n_layers(), p_.eps, p_.final_softcap, p_.never);
  g.tap(x, sdk::kDraftHidden);
}

sdk::Limits Gemma4Assistant::limits() const {
  return {.n_layers = n_layers(),
          .width = p_.target_width,
          .vocab = p_.vocab,
          .context = p_.context,
          .drafts_for = "gemma4"};
}

// No cap of the logits, which stand for the same tokens as the model's. Every layer asks the model's keys.
void Gemma4Assistant::build(const sdk::Graph& g, std::string_view) const {
  const sdk::Value token = g.embed("target:token_embd.weight", std::sqrt(static_cast<float>(p_.target_width)));
  sdk::Value x = g.linear(g.concat(token, g.hidden()), "nextn.pre_projection.weight");
  for (int64_t i = 0; i < n_layers(); ++i) {
    const Gemma4Layer& layer = p_.layers[static_cast<size_t>(i)];
    const sdk::AttentionOptions a = attention_options(layer);
    const sdk::Block b = g.layer(i, x);
    const sdk::Value q = rotated_query(b, b.linear(b.rms_norm(x, "attn_norm.weight", p_.eps), "attn_q.weight"), layer);
    const sdk::Value h = b.linear(b.attention(b.store_of_target(role(layer), a), q, a), "attn_output.weight");
    x = b.mul_weight(behind_attention(b, x, h, layer), "layer_output_scale.weight");
  }
  x = g.rms_norm(g.select_output_rows(x), "output_norm.weight", p_.eps);
  g.tap(x, "hidden." + std::to_string(n_layers()));
  g.tap(g.linear(x, "nextn.post_projection.weight"), sdk::kDraftHidden);
  g.logits(g.linear(x, "token_embd.weight"));
}

}  // namespace tenon::gemma
