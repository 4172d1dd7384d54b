// rotation.cpp: rotary frequencies and their scaling. A GGUF file of Llama 3 has the scaling as a tensor of divisors.
#include <cmath>

#include "llama.hpp"

namespace tenon::llama {
namespace {

std::string scaling_type(const sdk::Keys& key) {
  return key.value_or<std::string>("none", "rope.scaling.type", "rope_parameters.rope_type", "rope_scaling.rope_type",
                                   "rope_scaling.type");
}

float scaling_factor(const sdk::Keys& key) {
  return key.positive("rope.scaling.factor", "rope_parameters.factor", "rope_scaling.factor");
}

float original_context(const sdk::Keys& key, int64_t context) {
  const auto fallback = static_cast<float>(context);
  return key.positive_or(fallback, "rope.scaling.original_context_length",
                         "rope_parameters.original_max_position_embeddings",
                         "rope_scaling.original_max_position_embeddings", "original_max_position_embeddings");
}

float scaling(const sdk::Keys& key, float fallback, const char* gguf, const std::string& hf) {
  return key.positive_or(fallback, gguf, "rope_parameters." + hf, "rope_scaling." + hf);
}

void apply_yarn(const sdk::Keys& key, float base, int64_t context, sdk::Rope& rope) {
  sdk::Yarn yarn;
  yarn.factor = scaling_factor(key);
  yarn.original_context = original_context(key, context);
  yarn.beta_fast = scaling(key, yarn.beta_fast, "rope.scaling.yarn_beta_fast", "beta_fast");
  yarn.beta_slow = scaling(key, yarn.beta_slow, "rope.scaling.yarn_beta_slow", "beta_slow");
  if (!(yarn.original_context > 0) || !(base > 1))
    throw sdk::Error(TENON_CORRUPT,
                     key.name("rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings") +
                         ": YaRN needs the context that the model was trained for and a base above 1");
  rope.inv_freq = sdk::scale_yarn(std::move(rope.inv_freq), base, yarn);
  if (key.metadata().is_gguf()) {
    // The file's factor comes on top of the method's own.
    rope.magnitude = yarn.magnitude() * key.positive_or(1.0f, "rope.scaling.attn_factor");
    return;
  }
  rope.magnitude = scaling(key, yarn.magnitude(), "", "attention_factor");
  for (const char* name : {"rope_parameters.mscale", "rope_scaling.mscale"})
    if (const auto found = key.find(name))
      throw sdk::Error(TENON_UNSUPPORTED, found->key + ": expected attention_factor or nothing");
}

}  // namespace

void read_rope(const sdk::Keys& key, Params& p) {
  const int64_t head_dim = p.attention.head_dim, context = p.context;
  int64_t n_rot = head_dim;
  if (key.metadata().is_gguf()) {
    n_rot = key.integer_or(head_dim, {2, head_dim}, "rope.dimension_count");
  } else if (const auto share =
                 key.optional<float>("", "rope_parameters.partial_rotary_factor", "partial_rotary_factor")) {
    n_rot = static_cast<int64_t>(*share * static_cast<float>(head_dim));
  }
  if (n_rot < 2 || n_rot > head_dim || n_rot % 2)
    throw sdk::Error(TENON_CORRUPT, key.name("rope.dimension_count", "partial_rotary_factor") +
                                        ": expected an even number of rotary dimensions up to " +
                                        std::to_string(head_dim) + ", found " + std::to_string(n_rot));
  const float base = key.positive_or(10000.0f, "rope.freq_base", "rope_parameters.rope_theta", "rope_theta");
  sdk::Rope& rope = p.rope;
  rope = {.name = "rope",
          .inv_freq = sdk::inverse_frequencies(base, n_rot),
          .base = base,
          .head_dim = head_dim,
          .n_rot = n_rot,
          .divisor = "rope_freqs.weight"};
  // GGUF files of Llama order the rows of q and k so that pairs are neighbours.
  if (key.metadata().is_gguf() && key.prefix() == "llama") rope.style = TENON_ROPE_ADJACENT;

  const std::string type = scaling_type(key);
  p.rope_scaling = type == "default" ? "none" : type;
  if (type == "linear") {
    p.rope_factor = scaling_factor(key);
    rope.inv_freq = sdk::scale_linear(std::move(rope.inv_freq), p.rope_factor);
  } else if (type == "yarn") {
    apply_yarn(key, base, context, rope);
  } else if (type == "llama3" && !key.metadata().is_gguf()) {
    const float low = scaling(key, 1.0f, "", "low_freq_factor"), high = scaling(key, 4.0f, "", "high_freq_factor");
    if (!(high > low))
      throw sdk::Error(TENON_CORRUPT,
                       key.name("", "rope_parameters.high_freq_factor", "rope_scaling.high_freq_factor") +
                           ": expected a number above low_freq_factor, found " + sdk::text("%g", high));
    rope.inv_freq =
        sdk::scale_llama3(std::move(rope.inv_freq), scaling_factor(key), low, high, original_context(key, context));
  } else if (type != "none" && type != "default") {
    throw sdk::Error(TENON_UNSUPPORTED, key.name("rope.scaling.type", "rope_parameters.rope_type",
                                                 "rope_scaling.rope_type", "rope_scaling.type") +
                                            ": expected none, linear, yarn or llama3, found \"" + type + "\"");
  }
}

}  // namespace tenon::llama
