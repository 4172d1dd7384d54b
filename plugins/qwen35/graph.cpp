// graph.cpp: the maths. Gated DeltaNet is arXiv 2412.06464; the rest follows the released configurations.
#include "qwen35.hpp"

namespace tenon::qwen35 {

Qwen35::Qwen35(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {
  const std::string first_draft = sdk::Weights::block_prefix(static_cast<int64_t>(p_.recurrent.size()));
  const std::string here = meta.is_gguf() ? first_draft + "nextn.eh_proj.weight" : "mtp.fc.weight";
  holds_drafts_ = p_.n_draft > 0 && meta.tensor(here).has_value();
}

sdk::Limits Qwen35::limits() const {
  return {.n_layers = static_cast<int64_t>(p_.recurrent.size()),
          .width = p_.width,
          .vocab = p_.vocab,
          .context = p_.context,
          .n_draft_unused = holds_drafts_ ? p_.n_draft : 0};
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

void Qwen35::build(const sdk::Graph& g, std::string_view) const {
  sdk::Value x = g.embed("token_embd.weight");
  for (size_t i = 0; i < p_.recurrent.size(); ++i) {
    const sdk::Block b = g.layer(static_cast<int64_t>(i), x);
    sdk::Value h = b.rms_norm(x, "attn_norm.weight", p_.eps);
    h = p_.recurrent[i] ? sdk::gated_delta_net(b, h, delta_net()) : sdk::attention(b, h, attention());
    x = b.add(x, h);

    // Named after the attention, but it norms the input of the feed-forward part.
    h = b.rms_norm(x, "post_attention_norm.weight", p_.eps);
    x = b.add(x, p_.experts ? sdk::mixture_of_experts(b, h, *p_.experts) : sdk::feed_forward(b, h, feed_forward()));
  }
  sdk::finish(g, x, static_cast<int64_t>(p_.recurrent.size()), p_.eps, 0.0f, p_.never);
}

}  // namespace tenon::qwen35
