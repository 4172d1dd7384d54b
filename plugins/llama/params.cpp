// params.cpp: what the file says. Key names: GGUF's, then those of the Hugging Face config.
#include <cmath>

#include "llama.hpp"

namespace tenon::llama {
namespace {

[[noreturn]] void refuse(tenon_status status, const std::string& key, const std::string& expected,
                         const std::string& found) {
  throw sdk::Error(status, key + ": expected " + expected + ", found " + found);
}

int64_t vocabulary(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (!meta.is_gguf()) return key.integer(sdk::kAnyCount, "vocab_size");
  const auto table = meta.tensor("token_embd.weight");
  if (!table) throw sdk::Error(TENON_CORRUPT, "tensor token_embd.weight: missing, but " + key.prefix() + " expects it");
  return table->rows();
}

// Relatives that carry the same name and are something else.
void refuse_variants(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (const int64_t experts = key.value_or<int64_t>(0, "expert_count", "num_local_experts"); experts != 0)
    refuse(TENON_UNSUPPORTED, key.name("expert_count", "num_local_experts"), "no experts (dense models are served)",
           std::to_string(experts));
  if (meta.is_gguf()) {
    if (!key.value_or<bool>(true, "attention.causal"))
      refuse(TENON_UNSUPPORTED, key.name("attention.causal"), "true", "false");
    for (const char* name : {"ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"})
      if (meta.tensor(sdk::Weights::block_prefix(0) + name))
        throw sdk::Error(TENON_UNSUPPORTED, "tensor " + sdk::Weights::block_prefix(0) + name +
                                                ": feed-forward parts with biases are not served");
    return;
  }
  for (const char* name : {"use_sliding_window", "mlp_bias"})
    if (key.value_or<bool>(false, name)) refuse(TENON_UNSUPPORTED, key.name(name), "false", "true");
  const auto activation = key.value_or<std::string>("silu", "hidden_act");
  if (activation != "silu") refuse(TENON_UNSUPPORTED, key.name("hidden_act"), "silu", '"' + activation + '"');
}

int64_t head_width(const sdk::Keys& key, int64_t width, int64_t heads) {
  constexpr sdk::Bounds kHeadDim{2, 1024};
  const auto stated = key.find("attention.key_length", "head_dim");
  if (!stated && width % heads)
    refuse(TENON_CORRUPT, key.name("attention.head_count", "num_attention_heads"),
           "a divisor of " + std::to_string(width) + " (the width)", std::to_string(heads));
  const int64_t head_dim = stated ? key.integer(kHeadDim, "attention.key_length", "head_dim") : width / heads;
  if (head_dim < kHeadDim.low || head_dim > kHeadDim.high || head_dim % 2)
    refuse(TENON_CORRUPT, key.name("attention.key_length", "head_dim"), "an even head width from 2 to 1024",
           std::to_string(head_dim));
  const int64_t value_dim =
      key.metadata().is_gguf() ? key.integer_or(head_dim, kHeadDim, "attention.value_length") : head_dim;
  if (value_dim != head_dim)
    refuse(TENON_UNSUPPORTED, key.name("attention.value_length"), std::to_string(head_dim) + " (attention.key_length)",
           std::to_string(value_dim));
  return head_dim;
}

}  // namespace

Params read_params(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  refuse_variants(meta, key);
  Params p;
  p.id = id;
  p.n_layers = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.ffn_width = key.integer(sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  p.vocab = vocabulary(meta, key);

  const int64_t heads = key.integer({1, 4096}, "attention.head_count", "num_attention_heads");
  const int64_t kv_heads = key.integer_or(heads, {1, heads}, "attention.head_count_kv", "num_key_value_heads");
  if (heads % kv_heads)
    refuse(TENON_CORRUPT, key.name("attention.head_count_kv", "num_key_value_heads"),
           "a divisor of " + std::to_string(heads) + " (attention.head_count)", std::to_string(kv_heads));
  const int64_t head_dim = head_width(key, p.width, heads);
  p.attention = {.heads = heads,
                 .kv_heads = kv_heads,
                 .head_dim = head_dim,
                 .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
  // Mistral's first release; Qwen2 names a window that it does not use.
  if (id == "llama")
    p.attention.window = key.integer_or(0, {1, int64_t{1} << 30}, "attention.sliding_window", "sliding_window");
  read_rope(key, p);
  p.query_key_norm = id == "qwen3";
  p.bias = id == "qwen2" ? sdk::Bias::kQueryKeyValue : sdk::Bias::kWhereFound;
  return p;
}

}  // namespace tenon::llama
