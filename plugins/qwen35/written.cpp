// written.cpp: what a GGUF file of the trunk says. Draft blocks are left out.
#include <algorithm>

#include "qwen35.hpp"

namespace tenon::qwen35 {
namespace {

// Value heads lie key head by key head; GGUF has the first of each key head, then the second of each.
void reorder_value_heads(sdk::Written& w, const sdk::GatedDeltaNet& net) {
  const sdk::DeltaRuleOptions& r = net.rule;
  const int64_t share = r.value_heads / r.key_heads;
  const auto rows = [&](const char* name, int64_t first, int64_t unit) {
    w.reorder_rows(std::string("blk.{i}.") + name, first, 1, r.key_heads, share, unit);
  };
  const auto cols = [&](const char* name, int64_t unit) {
    w.reorder_cols(std::string("blk.{i}.") + name, 0, 1, r.key_heads, share, unit);
  };
  rows("attn_qkv.weight", 2 * net.key_cols(), r.value_dim);
  rows("ssm_conv1d.weight", 2 * net.key_cols(), r.value_dim);
  rows("attn_gate.weight", 0, r.value_dim);
  rows("ssm_beta.weight", 0, 1);
  rows("ssm_alpha.weight", 0, 1);
  cols("ssm_a", 1);
  cols("ssm_dt.bias", 1);
  cols("ssm_out.weight", r.value_dim);
}

}  // namespace

bool Qwen35::written(std::string_view scheme, sdk::Written& w) const {
  if (scheme != "gguf" || p_.joint_beta_alpha) return false;
  const sdk::DeltaRuleOptions& r = p_.delta;
  if (r.value_dim != r.key_dim)
    throw sdk::Error(TENON_UNSUPPORTED,
                     p_.id + sdk::text(": GGUF has one width for keys and values of the delta net, not %d and %d",
                                       static_cast<int>(r.key_dim), static_cast<int>(r.value_dim)));
  w.number("block_count", static_cast<int64_t>(p_.recurrent.size()));
  if (p_.context) w.number("context_length", p_.context);
  w.number("embedding_length", p_.width);
  if (!p_.experts) w.number("feed_forward_length", p_.ffn_width);
  w.number("attention.head_count", p_.attention.heads);
  w.number("attention.head_count_kv", p_.attention.kv_heads);
  w.number("attention.key_length", p_.attention.head_dim);
  w.number("attention.value_length", p_.attention.head_dim);
  w.real("attention.layer_norm_rms_epsilon", p_.eps);
  w.flags("attention.recurrent_layers", p_.recurrent);
  const auto first = std::find(p_.recurrent.begin(), p_.recurrent.end(), false);
  if (first != p_.recurrent.end()) w.number("full_attention_interval", first - p_.recurrent.begin() + 1);
  w.number("rope.dimension_count", p_.rope.n_rot);
  w.real("rope.freq_base", p_.rope.base);
  w.numbers("rope.dimension_sections", {p_.rope.sections[0], p_.rope.sections[1], p_.rope.sections[2], p_.rope.sections[3]});
  w.number("ssm.conv_kernel", p_.conv_taps);
  w.number("ssm.state_size", r.key_dim);
  w.number("ssm.group_count", r.key_heads);
  w.number("ssm.time_step_rank", r.value_heads);
  w.number("ssm.inner_size", r.value_heads * r.value_dim);
  if (p_.experts) {
    w.number("expert_count", p_.experts->route.n_expert);
    w.number("expert_used_count", p_.experts->route.top_k);
    w.number("expert_feed_forward_length", p_.experts->inner);
    w.number("expert_shared_feed_forward_length", p_.experts->shared_inner);
  }
  if (r.key_heads != r.value_heads) reorder_value_heads(w, delta_net());
  return true;
}

}  // namespace tenon::qwen35
