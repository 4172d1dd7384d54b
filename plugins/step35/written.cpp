// written.cpp: what a GGUF file of the trunk says. Draft blocks are left out.
#include <algorithm>

#include "step35.hpp"

namespace tenon::step35 {
namespace {

// GGUF states how many layers in front have no experts; all behind them do.
int64_t leading_dense(const std::vector<LayerParams>& layers) {
  const auto first = std::find_if(layers.begin(), layers.end(), [](const auto& layer) { return layer.has_experts; });
  if (std::any_of(first, layers.end(), [](const auto& layer) { return !layer.has_experts; }))
    throw sdk::Error(TENON_UNSUPPORTED, "step35: GGUF has no place for a layer without experts behind one with them");
  return first - layers.begin();
}

// The columns of local layers; global ones turn half as many.
int64_t rotary_columns(const Params& p) {
  const int64_t stated = p.local_rope.n_rot ? p.local_rope.n_rot : 2 * p.global_rope.n_rot;
  if (p.global_rope.n_rot && stated != 2 * p.global_rope.n_rot)
    throw sdk::Error(TENON_UNSUPPORTED,
                     sdk::text("step35: in GGUF global layers turn half as many columns as local ones, not %d and %d",
                               static_cast<int>(p.global_rope.n_rot), static_cast<int>(stated)));
  return stated;
}

void write_experts(const Params& p, sdk::Written& w) {
  const sdk::RouteOptions& route = p.experts.route;
  if (!p.experts.choice_bias)
    throw sdk::Error(TENON_UNSUPPORTED, "step35: GGUF files have a bias of the router's choice, this model has none");
  w.number("expert_count", route.n_expert);
  w.number("expert_used_count", route.top_k);
  w.number("expert_feed_forward_length", p.experts.inner);
  w.number("expert_shared_feed_forward_length", p.experts.shared_inner);
  w.number("expert_gating_func", 2);  // sigmoid
  w.real("expert_weights_scale", route.scale);
  w.flag("expert_weights_norm", route.normalize);
  w.number("moe_every_n_layers", 1);
}

// Only where the frequencies of global layers are scaled; one divisor for each pair of a whole head.
void write_divisors(const Params& p, sdk::Written& w) {
  const auto plain = sdk::inverse_frequencies(p.global_rope.base, p.global_rope.n_rot);
  if (plain == p.global_rope.inv_freq) return;
  auto divisors = sdk::frequency_divisors(plain, p.global_rope.inv_freq);
  divisors.resize(static_cast<size_t>(p.head_dim / 2), 1.0f);
  w.constant("rope_freqs.weight", std::move(divisors));
}

}  // namespace

bool Step35::written(std::string_view scheme, sdk::Written& w) const {
  if (scheme != "gguf") return false;
  std::vector<int64_t> heads, kv_heads;
  std::vector<bool> sliding;
  std::vector<float> expert_limits, dense_limits;
  for (const LayerParams& layer : p_.layers) {
    heads.push_back(layer.heads), kv_heads.push_back(layer.kv_heads), sliding.push_back(layer.sliding);
    expert_limits.push_back(layer.expert_limit), dense_limits.push_back(layer.dense_limit);
  }
  w.number("block_count", n_layers());
  if (p_.context) w.number("context_length", p_.context);
  w.number("embedding_length", p_.width);
  w.number("feed_forward_length", p_.ffn_width);
  w.numbers("attention.head_count", heads);
  w.numbers("attention.head_count_kv", kv_heads);
  w.number("attention.key_length", p_.head_dim);
  w.number("attention.value_length", p_.head_dim);
  w.number("attention.sliding_window", p_.window);
  w.flags("attention.sliding_window_pattern", sliding);
  w.real("attention.layer_norm_rms_epsilon", p_.eps);
  w.number("rope.dimension_count", rotary_columns(p_));
  w.real("rope.freq_base", p_.global_rope.base);
  w.real("rope.freq_base_swa", p_.local_rope.base);
  write_divisors(p_, w);
  const int64_t dense = leading_dense(p_.layers);
  w.number("leading_dense_block_count", dense);
  if (dense < n_layers()) write_experts(p_, w);
  w.reals("swiglu_clamp_exp", expert_limits);
  w.reals("swiglu_clamp_shexp", dense_limits);
  return true;
}

}  // namespace tenon::step35
