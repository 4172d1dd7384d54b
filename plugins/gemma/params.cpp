// params.cpp: what the file says. Key names: GGUF's, then those of the Hugging Face config.
#include <cmath>

#include "gemma.hpp"
#include "layer_types.hpp"

namespace tenon::gemma {
namespace {

constexpr int64_t kMaxHeadDim = 1024;

// Positions of global layers are divided by this.
float linear_factor(const sdk::Keys& key) {
  const auto type = key.optional<std::string>("rope.scaling.type", "rope_parameters.full_attention.rope_type",
                                              "rope_scaling.rope_type", "rope_scaling.type");
  if (!type || *type == "none" || *type == "default") return 1.0f;
  if (*type != "linear")
    throw sdk::Error(TENON_UNSUPPORTED, key.name("rope.scaling.type", "rope_scaling.rope_type") +
                                            ": expected none or linear, found \"" + *type + "\"");
  return key.positive("rope.scaling.factor", "rope_parameters.full_attention.factor", "rope_scaling.factor");
}

int64_t vocabulary(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (!meta.is_gguf()) return key.integer(sdk::kAnyCount, "vocab_size");
  const auto table = meta.tensor("token_embd.weight");
  if (!table) throw sdk::Error(TENON_CORRUPT, "tensor token_embd.weight: missing, but " + key.prefix() + " expects it");
  return table->rows();
}

sdk::Rope rope(const std::string& name, float base, int64_t head_dim, float factor) {
  return {.name = name,
          .inv_freq = sdk::scale_linear(sdk::inverse_frequencies(base, head_dim), factor),
          .base = base,
          .head_dim = head_dim,
          .n_rot = head_dim};
}

}  // namespace

Params read_params(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  Params p;
  p.id = id;
  const int64_t n = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.heads = key.integer({1, 4096}, "attention.head_count", "num_attention_heads");
  p.vocab = vocabulary(meta, key);
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  p.window = key.integer({1, int64_t{1} << 30}, "attention.sliding_window", "sliding_window");
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  p.final_softcap = key.value_or<float>(0.0f, "final_logit_softcapping", "final_logit_softcapping");
  if (p.final_softcap < 0)
    throw sdk::Error(TENON_CORRUPT, key.name("final_logit_softcapping") + ": expected a number of 0 or more, found " +
                                        sdk::text("%g", p.final_softcap));

  const int64_t head_dim = key.integer_or(p.width % p.heads == 0 ? p.width / p.heads : 256, {2, kMaxHeadDim},
                                          "attention.key_length", "head_dim");
  const int64_t value_dim = key.integer_or(head_dim, {2, kMaxHeadDim}, "attention.value_length", "head_dim");
  if (value_dim != head_dim)
    throw sdk::Error(TENON_UNSUPPORTED, key.name("attention.value_length") + ": expected " + std::to_string(head_dim) +
                                            " (attention.key_length), found " + std::to_string(value_dim));
  if (head_dim % 2)
    throw sdk::Error(TENON_CORRUPT, key.name("attention.key_length", "head_dim") +
                                        ": expected an even number (rotary pairs), found " + std::to_string(head_dim));
  const auto kv_heads = key.per_layer(n, {1, p.heads}, "attention.head_count_kv", "num_key_value_heads");
  const auto ffn = key.per_layer(n, sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  const auto sliding = sliding_layers(key, n);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    if (p.heads % kv_heads[at])
      throw sdk::Error(TENON_CORRUPT, key.name("attention.head_count_kv", "num_key_value_heads") +
                                          ": expected a divisor of " + std::to_string(p.heads) +
                                          " (attention.head_count) in layer " + std::to_string(i) + ", found " +
                                          std::to_string(kv_heads[at]));
    p.layers.push_back({.sliding = sliding[at], .kv_heads = kv_heads[at], .head_dim = head_dim, .ffn_width = ffn[at]});
  }

  p.embedding_scale = std::sqrt(static_cast<float>(p.width));
  // The config states the query's divisor; GGUF leaves it out. It is the head's width in every release but the one with
  // 62 layers, which uses width / heads.
  constexpr int64_t kLayersOf27B = 62;
  const float by_rule =
      n == kLayersOf27B ? static_cast<float>(p.width) / static_cast<float>(p.heads) : static_cast<float>(head_dim);
  const float divisor = meta.is_gguf() ? by_rule : key.positive_or(by_rule, "query_pre_attn_scalar");
  p.attention_scale = 1.0f / std::sqrt(divisor);
  p.attention_divisor = divisor, p.usual_divisor = by_rule;

  const float local_base = key.positive_or(10000.0f, "rope.freq_base_swa",
                                           "rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq");
  const float global_base =
      key.positive_or(1000000.0f, "rope.freq_base", "rope_parameters.full_attention.rope_theta", "rope_theta");
  p.local_rope = rope("rope.local", local_base, head_dim, 1.0f);
  p.global_rope_factor = linear_factor(key);
  p.global_rope = rope("rope.global", global_base, head_dim, p.global_rope_factor);
  return p;
}

}  // namespace tenon::gemma
