// sampler.hpp: from a row of logits to a token.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tenon {

struct SamplingOptions {
  float temperature = 0.8f;  // 0 = greedy
  int32_t top_k = 40;        // 0 = off
  float top_p = 0.95f;       // 1 = off
  float min_p = 0.05f;       // 0 = off
  float repetition_penalty = 1.0f;  // > 1: divides positive and multiplies negative logits of seen tokens
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t penalty_window = 64;  // last tokens that penalties see; -1 = all
  uint64_t seed = 0;
};

// Throws Error(kUsage) naming the field that is out of range.
void check(const SamplingOptions& options);

// The token depends on (logits, options, history, seed, index) only: P11 of docs/architecture.md. Order: penalties,
// top-k, temperature, top-p, min-p, draw. Ties go to the lower id. NaN in the row throws Error(kRuntime).
//   logits   f32 [vocab], not changed
//   history  tokens of the sequence so far, prompt included (for penalties)
//   index    number of the token in the sequence: the counter of the counter-based generator
int32_t sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> history,
               uint64_t index);

// Ids begin … end - 1.
struct IdRange {
  int32_t begin = 0, end = 0;
};

// The best of a row of logits, or of a part of it.
struct BestToken {
  float logit = -std::numeric_limits<float>::infinity();
  int32_t id = -1;            // of the largest logit, and of equal ones the lowest; -1: none is above minus infinity
  int32_t not_a_number = -1;  // the lowest id whose logit is NaN, which is larger than nothing; -1: none
};

// The token that sample() takes from the row where needs_only_best(); throws Error(kRuntime) where it does.
int32_t sample(const BestToken& best);
// Whether sample() takes the best of a row as it is: greedy, and no penalty changes it.
bool needs_only_best(const SamplingOptions& options);

// The uniform number in [0, 1) that (seed, index) gives: Philox 4x32-10 (Salmon et al., SC 2011).
double counter_uniform(uint64_t seed, uint64_t index);

}  // namespace tenon
