// params.cpp: what the file says. Each parameter has its GGUF name first, then its names in a Hugging Face config.
#include <cmath>

#include "qwen3.hpp"

namespace example {
namespace {

// Rows of the embedding: GGUF states the size of the vocabulary nowhere else.
int64_t vocabulary(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (!meta.is_gguf()) return key.integer(sdk::kAnyCount, "vocab_size");
  const auto table = meta.tensor("token_embd.weight");
  if (!table) throw sdk::Error(TENON_CORRUPT, "tensor token_embd.weight: missing, but " + key.prefix() + " expects it");
  return table->rows();
}

// What this plugin does not compute is refused, never passed over.
void refuse_variants(const sdk::Keys& key) {
  const auto scaling = key.optional<std::string>("rope.scaling.type", "rope_scaling.rope_type", "rope_scaling.type");
  if (scaling && *scaling != "none" && *scaling != "default")
    throw sdk::Error(TENON_UNSUPPORTED, key.name("rope.scaling.type", "rope_scaling.rope_type", "rope_scaling.type") +
                                            ": expected none, found \"" + *scaling + "\"");
  if (key.metadata().is_gguf()) return;
  for (const char* name : {"use_sliding_window", "attention_bias"})
    if (key.value_or<bool>(false, name))
      throw sdk::Error(TENON_UNSUPPORTED, key.name(name) + ": expected false, found true");
  const auto activation = key.value_or<std::string>("silu", "hidden_act");
  if (activation != "silu")
    throw sdk::Error(TENON_UNSUPPORTED, key.name("hidden_act") + ": expected silu, found \"" + activation + "\"");
}

}  // namespace

Params read_params(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  refuse_variants(key);
  Params p;
  p.n_layers = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.inner = key.integer(sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  p.vocab = vocabulary(meta, key);

  const int64_t heads = key.integer({1, 4096}, "attention.head_count", "num_attention_heads");
  const int64_t kv_heads = key.integer({1, heads}, "attention.head_count_kv", "num_key_value_heads");
  const int64_t head_dim = key.integer({2, 1024}, "attention.key_length", "head_dim");
  if (heads % kv_heads)
    throw sdk::Error(TENON_CORRUPT, key.name("attention.head_count_kv", "num_key_value_heads") +
                                        ": expected a divisor of " + std::to_string(heads) + ", found " +
                                        std::to_string(kv_heads));
  if (head_dim % 2)
    throw sdk::Error(TENON_CORRUPT, key.name("attention.key_length", "head_dim") + ": expected an even number, found " +
                                        std::to_string(head_dim));
  p.attention = {.heads = heads,
                 .kv_heads = kv_heads,
                 .head_dim = head_dim,
                 .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
  const float base = key.positive("rope.freq_base", "rope_parameters.rope_theta", "rope_theta");
  p.rope = {
      .name = "rope", .inv_freq = sdk::inverse_frequencies(base, head_dim), .head_dim = head_dim, .n_rot = head_dim};
  return p;
}

}  // namespace example
