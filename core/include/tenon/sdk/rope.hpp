// rope.hpp: inverse frequencies of rotary position embeddings.
//
// Computed in float32, step by step as reference outputs do: p = base^(2i / n_rot); inv = 1 / p; then the scaling. The
// angle of a row is f32(position) × inv, so the last bit of inv matters at long positions.
#pragma once

#include <cmath>
#include <string>
#include <tenon/sdk/base.hpp>
#include <vector>

namespace tenon::sdk {

// A rotation: the constant and the attributes of the op. `name` names the constant in the model: one a distinct table.
struct Rope {
  std::string name;
  std::vector<float> inv_freq;  // n_rot / 2
  float base = 0.0f;            // that they come from; for files that are written
  int64_t head_dim = 0, n_rot = 0;
  uint32_t style = TENON_ROPE_HALF;
  uint32_t sections[4] = {0, 0, 0, 0};
  float magnitude = 1.0f;
  // A tensor, declared as optional, by which the frequencies are divided where the file has it; "" = none.
  std::string divisor = {};
};

// inv[i] = 1 / base^(2i / exponent_dim), i < n_rot / 2; exponent_dim 0 = n_rot.
inline std::vector<float> inverse_frequencies(float base, int64_t n_rot, int64_t exponent_dim = 0) {
  const float width = static_cast<float>(exponent_dim ? exponent_dim : n_rot);
  std::vector<float> inv(static_cast<size_t>(n_rot / 2));
  for (size_t i = 0; i < inv.size(); ++i) {
    const float power = std::pow(base, static_cast<float>(2 * i) / width);
    inv[i] = 1.0f / power;
  }
  return inv;
}

// Positions divided by `factor`.
inline std::vector<float> scale_linear(std::vector<float> inv, float factor) {
  if (factor != 1.0f)
    for (float& f : inv) f /= factor;
  return inv;
}

// The rule of Llama 3.1: long waves are stretched by `factor`, short ones kept, those between blended.
inline std::vector<float> scale_llama3(std::vector<float> inv, float factor, float low, float high,
                                       float original_context) {
  constexpr float kTwoPi = 6.283185307179586f;
  const float low_wave = original_context / low, high_wave = original_context / high;
  for (float& f : inv) {
    const float wave = kTwoPi / f;
    if (wave < high_wave) continue;
    if (wave > low_wave) {
      f /= factor;
    } else {
      const float smooth = (original_context / wave - low) / (high - low);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return inv;
}

// YaRN (arXiv 2309.00071): pairs that turn often within the original context keep their frequency, those that turn
// seldom are divided by `factor`, those between blended.
struct Yarn {
  float factor = 1.0f, original_context = 0.0f;
  float beta_fast = 32.0f, beta_slow = 1.0f;  // turns within the original context
  bool truncate = true;                       // the two borders are whole pairs
  // Factor on sine and cosine unless the model states its own.
  float magnitude() const { return factor > 1.0f ? 0.1f * std::log(factor) + 1.0f : 1.0f; }
};
inline std::vector<float> scale_yarn(std::vector<float> inv, float base, const Yarn& o) {
  constexpr float kTwoPi = 6.283185307179586f;
  const auto n_rot = static_cast<float>(2 * inv.size());
  const auto border = [&](float turns) {
    return n_rot * std::log(o.original_context / (turns * kTwoPi)) / (2.0f * std::log(base));
  };
  float low = border(o.beta_fast), high = border(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::fmax(low, 0.0f), high = std::fmin(high, n_rot - 1.0f);
  const float width = high == low ? 0.001f : high - low;
  for (size_t i = 0; i < inv.size(); ++i) {
    const float ramp = std::fmin(std::fmax((static_cast<float>(i) - low) / width, 0.0f), 1.0f);
    inv[i] = inv[i] / o.factor * ramp + inv[i] * (1.0f - ramp);
  }
  return inv;
}

// What plain[i] is divided by to give scaled[i], to the last bit where an f32 does; 1e30 for pairs that rest.
inline std::vector<float> frequency_divisors(const std::vector<float>& plain, const std::vector<float>& scaled) {
  constexpr float kRest = 1e30f;
  std::vector<float> out;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!(scaled[i] > 0)) {
      out.push_back(kRest);
      continue;
    }
    const float nearest = plain[i] / scaled[i];
    float best = nearest;
    for (const float d : {nearest, std::nextafterf(nearest, 0.0f), std::nextafterf(nearest, kRest)})
      if (std::fabs(plain[i] / d - scaled[i]) < std::fabs(plain[i] / best - scaled[i])) best = d;
    out.push_back(best);
  }
  return out;
}

// "Proportional": exponents over the whole head, only the first `share` of the pairs turns, the others stay at rest.
inline std::vector<float> proportional_frequencies(float base, int64_t head_dim, float share) {
  auto inv = inverse_frequencies(base, head_dim);
  const auto turning = static_cast<size_t>(share * static_cast<float>(head_dim) / 2.0f);
  for (size_t i = turning; i < inv.size(); ++i) inv[i] = 0.0f;
  return inv;
}

}  // namespace tenon::sdk
