// graph.cpp: the maths. Gated DeltaNet is arXiv 2412.06464; the rest follows the released configurations.
#include "qwen35.hpp"

namespace tenon::qwen35 {

Qwen35::Qwen35(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {}

sdk::Limits Qwen35::limits() const {
  return {.n_layers = n_layers(),
          .width = p_.width,
          .vocab = p_.vocab,
          .context = p_.context,
          .n_draft_unused = p_.has_draft ? p_.n_draft - 1 : 0,  // releases have one; what more would mean is not known
          .n_draft_absent = p_.has_draft ? 0 : p_.n_draft};
}

std::vector<std::string> Qwen35::entries() const {
  std::vector<std::string> out;
  if (p_.has_trunk) out.push_back("main");
  if (p_.has_draft) out.push_back("draft.0");
  return out;
}

sdk::GroupedAttention Qwen35::attention() const {
  return {.attention = p_.attention,
          .width = p_.width,
          .rope = &p_.rope,
          .query_key_norm = true,
          .output_gate = true,
          .eps = p_.eps};
}

sdk::GatedDeltaNet Qwen35::delta_net() const {
  return {.rule = p_.delta,
          .width = p_.width,
          .taps = p_.conv_taps,
          .eps = p_.eps,
          .joint_beta_alpha = p_.joint_beta_alpha};
}

sdk::FeedForward Qwen35::feed_forward() const {
  return {.width = p_.width, .inner = p_.ffn_width, .activation = TENON_ACT_SILU};
}

sdk::NextN Qwen35::next_n() const {
  return {.block = n_layers(), .width = p_.width, .vocab = p_.vocab, .head_rows = p_.head_rows, .eps = p_.eps};
}

sdk::Value Qwen35::layer(const sdk::Block& b, sdk::Value x, bool recurrent) const {
  sdk::Value h = b.rms_norm(x, "attn_norm.weight", p_.eps);
  h = recurrent ? sdk::gated_delta_net(b, h, delta_net()) : sdk::attention(b, h, attention());
  x = b.add(x, h);

  // Named after the attention, but it norms the input of the feed-forward part.
  h = b.rms_norm(x, "post_attention_norm.weight", p_.eps);
  return b.add(x, p_.experts ? sdk::mixture_of_experts(b, h, *p_.experts) : sdk::feed_forward(b, h, feed_forward()));
}

void Qwen35::build(const sdk::Graph& g, std::string_view entry) const {
  if (entry != "main") return build_draft(g);
  sdk::Value x = g.embed_or_overlay("token_embd.weight");
  for (int64_t i = 0; i < n_layers(); ++i) x = layer(g.layer(i, x), x, p_.recurrent[static_cast<size_t>(i)]);
  x = sdk::finish(g, x, n_layers(), p_.eps, 0.0f, p_.never);
  g.tap(x, sdk::kDraftHidden);
}

// Full attention behind the trunk, fed with the trunk's normed rows.
void Qwen35::build_draft(const sdk::Graph& g) const {
  const auto [b, x] = sdk::begin_next_n(g, next_n());
  sdk::finish_next_n(g, next_n(), layer(b, x, false));
}

}  // namespace tenon::qwen35
