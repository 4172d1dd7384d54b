// params.cpp: what the file says. Key names: GGUF's, then those of the Hugging Face config.
#include <algorithm>
#include <cmath>

#include "step35.hpp"

namespace tenon::step35 {

void refuse(tenon_status status, const std::string& key, const std::string& expected, const std::string& found) {
  throw sdk::Error(status, key + ": expected " + expected + ", found " + found);
}

namespace {

constexpr float kFloor = 6.103515625e-5f;  // least sum of the chosen experts' weights that is divided by

// The first layer of a kind; -1 = there is none.
int64_t first_layer(const std::vector<LayerParams>& layers, bool sliding) {
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].sliding == sliding) return static_cast<int64_t>(i);
  return -1;
}

// A number, or a list with one a layer in which all layers of a kind agree.
float of_kind(const sdk::Keys& key, const std::vector<LayerParams>& layers, bool sliding, float fallback,
              const char* hf) {
  const int64_t first = first_layer(layers, sliding);
  const auto found = key.find(hf);
  if (!found || first < 0) return fallback;
  if (found->value.type != TENON_VALUE_ARRAY) return key.positive("", hf);
  const auto values = found->as<std::vector<float>>();
  if (values.size() < layers.size())
    refuse(TENON_CORRUPT, found->key, std::to_string(layers.size()) + " entries (one a layer)",
           std::to_string(values.size()));
  const float value = values[static_cast<size_t>(first)];
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].sliding == sliding && values[i] != value)
      refuse(TENON_UNSUPPORTED, found->key,
             sdk::text("%g in layer %d as in others of its kind", value, static_cast<int>(i)),
             sdk::text("%g", values[i]));
  if (!(value > 0)) refuse(TENON_CORRUPT, found->key, "numbers above 0", sdk::text("%g", value));
  return value;
}

sdk::Rope rotation(const char* name, float base, int64_t head_dim, int64_t n_rot, const std::string& key) {
  if (n_rot < 2 || n_rot > head_dim || n_rot % 2)
    refuse(TENON_CORRUPT, key, "an even number of rotary dimensions up to " + std::to_string(head_dim),
           std::to_string(n_rot));
  return {.name = name, .inv_freq = sdk::inverse_frequencies(base, n_rot), .base = base, .head_dim = head_dim, .n_rot = n_rot};
}

void read_ropes(const sdk::Keys& key, Params& p) {
  if (key.metadata().is_gguf()) {
    const std::string name = key.name("rope.dimension_count");
    const int64_t n_rot = key.integer_or(p.head_dim, {2, p.head_dim}, "rope.dimension_count");
    const float base = key.positive("rope.freq_base");
    p.local_rope = rotation("rope.local", key.positive_or(base, "rope.freq_base_swa"), p.head_dim, n_rot, name);
    // The file states the columns of local layers; global ones turn half as many.
    p.global_rope = rotation("rope.global", base, p.head_dim, n_rot / 2, name);
    p.global_rope.divisor = "rope_freqs.weight";
    return;
  }
  const auto read = [&](const char* name, bool sliding, float share, float base) {
    base = of_kind(key, p.layers, sliding, base, "rope_theta");
    share = of_kind(key, p.layers, sliding, share, "partial_rotary_factors");
    return rotation(name, base, p.head_dim, static_cast<int64_t>(share * static_cast<float>(p.head_dim)),
                    key.name("partial_rotary_factors"));
  };
  p.local_rope = read("rope.local", true, 1.0f, 1e4f);
  p.global_rope = read("rope.global", false, 0.5f, 5e6f);
  const auto type = key.value_or<std::string>("default", "", "rope_scaling.rope_type", "rope_parameters.rope_type");
  if (type == "default") return;
  const auto value = [&](const std::string& name) {
    return key.positive("", "rope_scaling." + name, "rope_parameters." + name);
  };
  if (type != "llama3")
    refuse(TENON_UNSUPPORTED, key.name("", "rope_scaling.rope_type"), "llama3 or default", '"' + type + '"');
  p.global_rope.inv_freq =
      sdk::scale_llama3(std::move(p.global_rope.inv_freq), value("factor"), value("low_freq_factor"),
                        value("high_freq_factor"), value("original_max_position_embeddings"));
}

sdk::MixtureOfExperts read_experts(const sdk::Keys& key, int64_t width) {
  sdk::MixtureOfExperts out;
  out.width = width;
  sdk::RouteOptions& route = out.route;
  route.n_expert = key.integer({1, 1 << 16}, "expert_count", "moe_num_experts", "n_routed_experts");
  route.top_k = key.integer({1, route.n_expert}, "expert_used_count", "moe_top_k", "num_experts_per_tok");
  out.inner = key.integer(sdk::kAnyCount, "expert_feed_forward_length", "moe_intermediate_size");
  out.shared_inner =
      key.integer(sdk::kAnyCount, "expert_shared_feed_forward_length", "share_expert_dim", "share_expert_dims");
  constexpr int64_t kSigmoid = 2;
  if (const int64_t gating = key.integer_or(kSigmoid, {0, 16}, "expert_gating_func"); gating != kSigmoid)
    refuse(TENON_UNSUPPORTED, key.name("expert_gating_func"), "2 (sigmoid)", std::to_string(gating));
  const auto activation = key.value_or<std::string>("sigmoid", "", "moe_router_activation");
  if (activation != "sigmoid")
    refuse(TENON_UNSUPPORTED, key.name("", "moe_router_activation"), "sigmoid", '"' + activation + '"');
  route.gating = sdk::Gating::kSigmoid;
  route.normalize = key.value_or<bool>(true, "expert_weights_norm", "norm_expert_weight");
  route.scale = key.positive_or(1.0f, "expert_weights_scale", "moe_router_scaling_factor");
  route.floor = kFloor;
  out.choice_bias = key.value_or<bool>(true, "", "use_moe_router_bias");
  return out;
}

// A file may announce draft blocks and leave them to another, which then holds them alone.
void read_parts(const sdk::Metadata& meta, int64_t n_trunk, Params& p) {
  const auto has = [&](const std::string& gguf, int64_t layer, const std::string& hf) {
    if (meta.is_gguf()) return meta.tensor(sdk::Weights::block_prefix(layer) + gguf).has_value();
    const std::string name = sdk::text("layers.%d.", static_cast<int>(layer)) + hf;
    return meta.tensor("model." + name) || meta.tensor("model.language_model." + name);
  };
  p.has_drafts = p.n_draft > 0 && has("nextn.eh_proj.weight", n_trunk, "eh_proj.weight");
  p.has_trunk = !p.has_drafts || has("attn_norm.weight", 0, "input_layernorm.weight");
}

// 0 = a file of drafts alone does not say.
int64_t vocabulary(const sdk::Metadata& meta, const sdk::Keys& key, bool has_trunk) {
  if (!meta.is_gguf()) return key.integer(sdk::kAnyCount, "vocab_size");
  const auto table = meta.tensor("token_embd.weight");
  if (!table && has_trunk)
    throw sdk::Error(TENON_CORRUPT, "tensor token_embd.weight: missing, but " + key.prefix() + " expects it");
  return table ? table->rows() : 0;
}

}  // namespace

Params read_params(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  Params p;
  p.id = id;
  // GGUF counts the draft blocks in block_count, a config does not.
  const int64_t n_listed = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  p.n_draft = key.integer_or(0, {0, 16}, "nextn_predict_layers", "num_nextn_predict_layers");
  const int64_t n_trunk = meta.is_gguf() ? n_listed - p.n_draft : n_listed;
  if (n_trunk < 1)
    refuse(TENON_CORRUPT, key.name("nextn_predict_layers"), "fewer than " + std::to_string(n_listed) + " (block_count)",
           std::to_string(p.n_draft));
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  p.ffn_width = key.integer(sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  p.window = key.integer({1, int64_t{1} << 30}, "attention.sliding_window", "sliding_window");
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  read_parts(meta, n_trunk, p);
  p.vocab = vocabulary(meta, key, p.has_trunk);
  p.head_dim = key.integer({2, 1024}, "attention.key_length", "head_dim");
  if (meta.is_gguf())
    if (const int64_t value_dim = key.integer_or(p.head_dim, {2, 1024}, "attention.value_length");
        value_dim != p.head_dim)
      refuse(TENON_UNSUPPORTED, key.name("attention.value_length"),
             std::to_string(p.head_dim) + " (attention.key_length)", std::to_string(value_dim));
  p.layers = read_layers(key, n_trunk, n_trunk + p.n_draft);
  p.drafts.assign(p.layers.begin() + n_trunk, p.layers.end());
  p.layers.resize(static_cast<size_t>(n_trunk));
  if (!p.has_trunk && p.drafts.empty())
    refuse(TENON_CORRUPT, key.name("attention.head_count", "layer_types"), "entries for draft blocks as well",
           std::to_string(n_trunk) + ", those of the trunk");
  for (size_t i = 0; i < p.drafts.size(); ++i)
    p.head_rows.push_back(sdk::head_rows(meta, p.vocab, n_trunk + static_cast<int64_t>(i)));
  p.file_head_rows = sdk::head_rows(meta, p.vocab);
  read_ropes(key, p);
  if (std::any_of(p.layers.begin(), p.layers.end(), [](const LayerParams& layer) { return layer.has_experts; }))
    p.experts = read_experts(key, p.width);
  return p;
}

}  // namespace tenon::step35
