// layers.cpp: what differs from layer to layer. Lists may go on for the draft blocks behind the trunk.
#include <algorithm>
#include <span>
#include <sstream>

#include "step35.hpp"

namespace tenon::step35 {
namespace {

// Limits up to this are none.
constexpr float kNoLimit = 1e-6f;
constexpr int64_t kMaxDrafts = 16;

// One value a layer of the trunk, and one a draft block as far as there are any: a single one is repeated, a list has
// one for each layer, and may go on for draft blocks even where the file has none.
template <typename T>
std::vector<T> list(const sdk::Found& found, int64_t n_trunk, int64_t n_blocks) {
  std::vector<T> out;
  if (found.value.type == TENON_VALUE_ARRAY) {
    out = found.as<std::vector<T>>();
  } else {
    out.assign(static_cast<size_t>(n_blocks), found.as<T>());
  }
  const auto size = static_cast<int64_t>(out.size());
  if (size < n_trunk || size > n_trunk + kMaxDrafts)
    refuse(TENON_CORRUPT, found.key, std::to_string(n_blocks) + " entries (one a block)", std::to_string(size));
  out.resize(static_cast<size_t>(std::min(size, n_blocks)));
  return out;
}

std::vector<bool> sliding_layers(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks) {
  const auto found = key.find("attention.sliding_window_pattern", "layer_types");
  if (!found) {
    std::vector<bool> out;
    for (int64_t i = 0; i < n_blocks; ++i) out.push_back(i % 4 != 0);
    return out;
  }
  if (found->value.element != TENON_VALUE_STRING) return list<bool>(*found, n_trunk, n_blocks);
  std::vector<bool> out;
  for (const std::string& type : list<std::string>(*found, n_trunk, n_blocks)) {
    if (type != "sliding_attention" && type != "full_attention")
      refuse(TENON_CORRUPT, found->key, "sliding_attention or full_attention", '"' + type + '"');
    out.push_back(type == "sliding_attention");
  }
  return out;
}

// Heads of a layer. A config has one number for global layers and another for local ones.
void read_heads(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks, std::vector<LayerParams>& layers) {
  const auto read = [&](const char* gguf, const char* hf, const char* alias, const char* local, auto member) {
    const auto found = key.find(gguf, hf, alias);
    if (!found) refuse(TENON_CORRUPT, key.name(gguf, hf), "a value (" + key.prefix() + " needs it)", "no such key");
    const auto values = list<int64_t>(*found, n_trunk, n_blocks);
    layers.resize(std::min(layers.size(), values.size()));
    for (size_t i = 0; i < layers.size(); ++i) {
      int64_t value = values[i];
      if (layers[i].sliding && !key.metadata().is_gguf())
        value = key.value_or<int64_t>(value, "", std::string("attention_other_setting.") + hf, local);
      if (value < 1 || value > 4096)
        refuse(TENON_CORRUPT, found->key, "1 to 4096 heads in layer " + std::to_string(i), std::to_string(value));
      layers[i].*member = value;
    }
  };
  read("attention.head_count", "num_attention_heads", "num_attention_heads", "num_sliding_attention_heads",
       &LayerParams::heads);
  read("attention.head_count_kv", "num_attention_groups", "num_key_value_heads", "num_sliding_attention_groups",
       &LayerParams::kv_heads);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].heads % layers[i].kv_heads)
      refuse(
          TENON_CORRUPT, key.name("attention.head_count_kv", "num_attention_groups", "num_key_value_heads"),
          "a divisor of " + std::to_string(layers[i].heads) + " (attention.head_count) in layer " + std::to_string(i),
          std::to_string(layers[i].kv_heads));
}

// A draft block that the lists do not reach has none.
void read_limits(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks, std::vector<LayerParams>& layers) {
  const auto read = [&](const char* gguf, const char* hf, auto member) {
    const auto found = key.find(gguf, hf);
    if (!found) return;
    const auto values = list<float>(*found, n_trunk, n_blocks);
    for (size_t i = 0; i < std::min(layers.size(), values.size()); ++i) {
      if (values[i] < 0)
        refuse(TENON_CORRUPT, found->key, "0 or more in layer " + std::to_string(i), sdk::text("%g", values[i]));
      layers[i].*member = values[i] > kNoLimit ? values[i] : 0.0f;
    }
  };
  read("swiglu_clamp_exp", "swiglu_limits", &LayerParams::expert_limit);
  read("swiglu_clamp_shexp", "swiglu_limits_shared", &LayerParams::dense_limit);
}

// GGUF: all but the first. A config lists them in a string, "3,4,5".
void read_experts(const sdk::Keys& key, std::span<LayerParams> layers) {
  const auto n = static_cast<int64_t>(layers.size());
  if (const int64_t every = key.integer_or(1, {0, 512}, "moe_every_n_layers", "moe_every_n_layer"); every > 1)
    refuse(TENON_UNSUPPORTED, key.name("moe_every_n_layers", "moe_every_n_layer"), "1", std::to_string(every));
  if (key.metadata().is_gguf()) {
    const int64_t dense = key.integer_or(0, {0, n}, "leading_dense_block_count");
    for (int64_t i = dense; i < n; ++i) layers[static_cast<size_t>(i)].has_experts = true;
    return;
  }
  const auto found = key.find("moe_layers_enum");
  if (!found) refuse(TENON_CORRUPT, key.name("moe_layers_enum"), "a list of layers", "no such key");
  std::istringstream text(found->as<std::string>());
  char comma = ',';
  for (int64_t i = 0; comma == ',' && text >> i; comma = text >> comma ? comma : '\0') {
    if (i < 0 || i >= n)
      refuse(TENON_CORRUPT, found->key, "layers from 0 to " + std::to_string(n - 1), std::to_string(i));
    layers[static_cast<size_t>(i)].has_experts = true;
  }
  if (!text.eof())
    refuse(TENON_CORRUPT, found->key, "numbers with commas between", '"' + found->as<std::string>() + '"');
}

}  // namespace

std::vector<LayerParams> read_layers(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks) {
  const auto sliding = sliding_layers(key, n_trunk, n_blocks);
  std::vector<LayerParams> layers(sliding.size());
  for (size_t i = 0; i < layers.size(); ++i) layers[i].sliding = sliding[i];
  read_heads(key, n_trunk, n_blocks, layers);
  read_limits(key, n_trunk, n_blocks, layers);
  // Draft blocks are dense.
  read_experts(key, std::span(layers).first(static_cast<size_t>(n_trunk)));
  return layers;
}

}  // namespace tenon::step35
