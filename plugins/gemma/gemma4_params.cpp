// gemma4_params.cpp: what a file of Gemma 4 says. Key names: GGUF's, then those of the Hugging Face config.
#include <cmath>

#include "gemma4.hpp"
#include "layer_types.hpp"

namespace tenon::gemma {
namespace {

constexpr sdk::Bounds kHeadDim{2, 1024};

[[noreturn]] void refuse(tenon_status status, const std::string& key, const std::string& expected,
                         const std::string& found) {
  throw sdk::Error(status, key + ": expected " + expected + ", found " + found);
}

int64_t table_rows(const sdk::Metadata& meta, const std::string& name, const std::string& id) {
  const auto table = meta.tensor(name);
  if (!table) throw sdk::Error(TENON_CORRUPT, "tensor " + name + ": missing, but " + id + " expects it");
  return table->rows();
}

void refuse_variants(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (meta.is_gguf()) {
    if (!key.value_or<bool>(true, "attention.causal"))
      refuse(TENON_UNSUPPORTED, key.name("attention.causal"), "true", "false");
    return;
  }
  if (key.value_or<bool>(false, "attention_bias"))
    refuse(TENON_UNSUPPORTED, key.name("attention_bias"), "false", "true");
  if (const auto mask = key.find("use_bidirectional_attention");
      mask && mask->value.type == TENON_VALUE_STRING && mask->as<std::string>() == "all")
    refuse(TENON_UNSUPPORTED, mask->key, "a causal model", "\"all\"");
  const auto activation = key.value_or<std::string>("gelu_pytorch_tanh", "hidden_activation");
  if (activation != "gelu_pytorch_tanh")
    refuse(TENON_UNSUPPORTED, key.name("hidden_activation"), "gelu_pytorch_tanh", '"' + activation + '"');
}

// Images' rows see each other in local layers of the releases without embeddings of their own a layer: their configs
// say so, GGUF files do not.
bool has_span_mask(const sdk::Metadata& meta, const sdk::Keys& key, const Gemma4Params& p) {
  if (p.layer_embedding || p.target_width) return false;
  const auto mask = key.find("use_bidirectional_attention");
  return meta.is_gguf() || (mask && mask->value.type == TENON_VALUE_STRING && mask->as<std::string>() == "vision");
}

// Widths of the heads of local and global layers.
struct HeadDims {
  int64_t local, global;
};
HeadDims head_dims(const sdk::Metadata& meta, const sdk::Keys& key) {
  if (!meta.is_gguf()) {
    const int64_t local = key.integer(kHeadDim, "head_dim");
    return {local, key.integer_or(local, kHeadDim, "global_head_dim")};
  }
  const int64_t global = key.integer(kHeadDim, "attention.key_length");
  const HeadDims dims = {key.integer_or(global, kHeadDim, "attention.key_length_swa"), global};
  for (const auto& [name, width] :
       {std::pair{"attention.value_length", dims.global}, {"attention.value_length_swa", dims.local}})
    if (const int64_t found = key.integer_or(width, kHeadDim, name); found != width)
      refuse(TENON_UNSUPPORTED, key.name(name), std::to_string(width) + " (the keys' width)", std::to_string(found));
  return dims;
}

// K/V heads layer by layer. A config has a number for local layers and may have another for global ones.
std::vector<int64_t> kv_heads(const sdk::Metadata& meta, const sdk::Keys& key, const std::vector<bool>& sliding,
                              int64_t heads) {
  const auto n = static_cast<int64_t>(sliding.size());
  auto out = key.per_layer(n, {1, heads}, "attention.head_count_kv", "num_key_value_heads");
  if (!meta.is_gguf() && key.value_or<bool>(false, "attention_k_eq_v"))
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!sliding[at]) out[at] = key.integer_or(out[at], {1, heads}, "num_global_key_value_heads");
    }
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t found = out[static_cast<size_t>(i)]; heads % found)
      refuse(TENON_CORRUPT, key.name("attention.head_count_kv", "num_key_value_heads"),
             "a divisor of " + std::to_string(heads) + " (attention.head_count) in layer " + std::to_string(i),
             std::to_string(found));
  return out;
}

// Whether global layers have no projection for their values. A GGUF file says so by leaving the tensors out, of all of
// them.
bool global_key_is_value(const sdk::Metadata& meta, const sdk::Keys& key, const std::vector<Gemma4Layer>& layers) {
  if (!meta.is_gguf()) return key.value_or<bool>(false, "attention_k_eq_v");
  std::string without, with;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].sliding || layers[i].source >= 0) continue;
    const std::string name = sdk::Weights::block_prefix(static_cast<int64_t>(i)) + "attn_v.weight";
    (meta.tensor(name) ? with : without) = name;
  }
  if (!with.empty() && !without.empty())
    throw sdk::Error(TENON_CORRUPT, "tensor " + without + ": missing, while another global layer has " + with);
  return !without.empty();
}

// The last layers read the keys and values of the last layer of their kind that has its own.
void share_keys(const sdk::Keys& key, std::vector<Gemma4Layer>& layers) {
  const auto n = static_cast<int64_t>(layers.size());
  const int64_t n_shared = key.integer_or(0, {0, n - 1}, "attention.shared_kv_layers", "num_kv_shared_layers");
  for (int64_t i = n - n_shared; i < n; ++i) {
    Gemma4Layer& layer = layers[static_cast<size_t>(i)];
    for (int64_t j = 0; j < n - n_shared; ++j)
      if (layers[static_cast<size_t>(j)].sliding == layer.sliding) layer.source = j;
    if (layer.source < 0)
      refuse(TENON_CORRUPT, key.name("attention.shared_kv_layers", "num_kv_shared_layers"),
             "a layer with own keys for each kind that shares them; layer " + std::to_string(i) + " has none",
             std::to_string(n_shared));
    if (const int64_t theirs = layers[static_cast<size_t>(layer.source)].kv_heads; theirs != layer.kv_heads)
      refuse(TENON_CORRUPT, key.name("attention.head_count_kv", "num_key_value_heads"),
             std::to_string(theirs) + " in layer " + std::to_string(i) + ", which reads the keys of layer " +
                 std::to_string(layer.source),
             std::to_string(layer.kv_heads));
  }
}

// Widths of the feed-forward parts. A config doubles those of layers that share keys by a flag.
std::vector<int64_t> ffn_widths(const sdk::Metadata& meta, const sdk::Keys& key,
                                const std::vector<Gemma4Layer>& layers) {
  auto out =
      key.per_layer(static_cast<int64_t>(layers.size()), sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  if (!meta.is_gguf() && key.value_or<bool>(false, "use_double_wide_mlp"))
    for (size_t i = 0; i < out.size(); ++i)
      if (layers[i].source >= 0) out[i] *= 2;
  return out;
}

void read_layers(const sdk::Metadata& meta, const sdk::Keys& key, Gemma4Params& p) {
  const int64_t n = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  const auto sliding = sliding_layers(key, n);
  const HeadDims dims = head_dims(meta, key);
  for (const int64_t width : {dims.local, dims.global})
    if (width % 2)
      refuse(TENON_CORRUPT, key.name("attention.key_length", "head_dim"), "even head widths (rotary pairs)",
             std::to_string(width));
  const auto heads = kv_heads(meta, key, sliding, p.heads);
  for (size_t i = 0; i < sliding.size(); ++i)
    p.layers.push_back(
        {.sliding = sliding[i], .kv_heads = heads[i], .head_dim = sliding[i] ? dims.local : dims.global});
  if (p.target_width) {
    for (Gemma4Layer& layer : p.layers) layer.source = 0;  // keys and values are the model's
  } else {
    share_keys(key, p.layers);
  }
  const auto widths = ffn_widths(meta, key, p.layers);
  const bool key_is_value = global_key_is_value(meta, key, p.layers);
  for (size_t i = 0; i < p.layers.size(); ++i) {
    p.layers[i].ffn_width = widths[i];
    p.layers[i].key_is_value = key_is_value && !p.layers[i].sliding && p.layers[i].source < 0;
  }
}

int64_t rotary_width(const sdk::Keys& key, const char* gguf, int64_t head_dim) {
  const int64_t n_rot = key.metadata().is_gguf() ? key.integer_or(head_dim, {2, head_dim}, gguf) : head_dim;
  if (n_rot % 2) refuse(TENON_CORRUPT, key.name(gguf), "an even number of rotary dimensions", std::to_string(n_rot));
  return n_rot;
}

// Only the first share of a global head's pairs turns. GGUF says so with a tensor of divisors, huge for those at rest.
void read_ropes(const sdk::Metadata& meta, const sdk::Keys& key, Gemma4Params& p) {
  const float local_base =
      key.positive_or(10000.0f, "rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta");
  const float global_base = key.positive_or(1000000.0f, "rope.freq_base", "rope_parameters.full_attention.rope_theta");
  for (const Gemma4Layer& layer : p.layers) {
    sdk::Rope& rope = layer.sliding ? p.local_rope : p.global_rope;
    rope.head_dim = layer.head_dim;
    rope.n_rot = rotary_width(key, layer.sliding ? "rope.dimension_count_swa" : "rope.dimension_count", layer.head_dim);
  }
  p.local_rope.name = "rope.local", p.global_rope.name = "rope.global";
  p.local_rope.base = local_base, p.global_rope.base = global_base;
  p.local_rope.inv_freq = sdk::inverse_frequencies(local_base, p.local_rope.n_rot);
  p.global_rope.inv_freq = sdk::inverse_frequencies(global_base, p.global_rope.n_rot);
  if (p.global_rope.n_rot == 0) return;  // no global layer
  if (meta.is_gguf()) {
    p.global_rope.divisor = "rope_freqs.weight";
    return;
  }
  const auto type = key.value_or<std::string>("proportional", "rope_parameters.full_attention.rope_type");
  if (type != "proportional")
    refuse(TENON_UNSUPPORTED, key.name("rope_parameters.full_attention.rope_type"), "proportional", '"' + type + '"');
  const float share = key.positive_or(0.25f, "rope_parameters.full_attention.partial_rotary_factor");
  if (share > 1)
    refuse(TENON_CORRUPT, key.name("rope_parameters.full_attention.partial_rotary_factor"), "a share up to 1",
           sdk::text("%g", share));
  p.global_rope.inv_freq = sdk::proportional_frequencies(global_base, p.global_rope.n_rot, share);
}

// A config may name experts and switch them off.
sdk::MixtureOfExperts read_experts(const sdk::Metadata& meta, const sdk::Keys& key, int64_t width) {
  sdk::MixtureOfExperts out;
  if (!meta.is_gguf() && !key.value_or<bool>(false, "enable_moe_block")) return out;
  out.route.n_expert = key.integer_or(0, {0, 1 << 16}, "expert_count", "num_experts");
  if (out.route.n_expert == 0) return out;
  out.width = width;
  out.route.top_k = key.integer({1, out.route.n_expert}, "expert_used_count", "top_k_experts");
  out.inner =
      key.integer(sdk::kAnyCount, "expert_feed_forward_length", "moe_intermediate_size", "expert_intermediate_size");
  out.expert.activation = TENON_ACT_GELU_TANH;
  return out;
}

std::vector<int32_t> suppressed(const sdk::Metadata& meta, int64_t vocab) {
  std::vector<int32_t> out;
  const auto found = meta.find("tokenizer.ggml.suppress_tokens");
  if (!found) return out;
  for (const int64_t id : found->as<std::vector<int64_t>>()) {
    if (id < 0 || id >= vocab)
      refuse(TENON_CORRUPT, found->key, "ids from 0 to " + std::to_string(vocab - 1), std::to_string(id));
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

}  // namespace

Gemma4Params read_gemma4(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  refuse_variants(meta, key);
  Gemma4Params p;
  p.id = id;
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.heads = key.integer({1, 4096}, "attention.head_count", "num_attention_heads");
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  p.window = key.integer({1, int64_t{1} << 30}, "attention.sliding_window", "sliding_window");
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  // Old GGUF files leave out the cap of every release; a config without one means none.
  const bool is_assistant = id == kAssistant;
  p.final_softcap = key.value_or<float>(meta.is_gguf() && !is_assistant ? 30.0f : 0.0f, "final_logit_softcapping",
                                        "final_logit_softcapping");
  if (p.final_softcap < 0)
    refuse(TENON_CORRUPT, key.name("final_logit_softcapping"), "a number of 0 or more",
           sdk::text("%g", p.final_softcap));
  p.vocab = meta.is_gguf() ? table_rows(meta, "token_embd.weight", id) : key.integer(sdk::kAnyCount, "vocab_size");
  p.layer_embedding =
      key.integer_or(0, {0, 1 << 16}, "embedding_length_per_layer_input", "hidden_size_per_layer_input");
  if (is_assistant) p.target_width = key.integer(sdk::kAnyCount, "embedding_length_out", "backbone_hidden_size");
  p.span_mask = has_span_mask(meta, key, p);
  read_layers(meta, key, p);
  read_ropes(meta, key, p);
  p.experts = read_experts(meta, key, p.width);
  if (is_assistant && (p.layer_embedding || p.experts.route.n_expert))
    refuse(TENON_UNSUPPORTED, key.name("block_count"), "dense layers without embeddings of their own", "others");
  p.never = suppressed(meta, p.vocab);
  return p;
}

}  // namespace tenon::gemma
