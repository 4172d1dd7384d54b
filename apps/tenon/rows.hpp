// rows.hpp: what is read from a row of logits.
#pragma once

#include <cstdint>
#include <span>

namespace tenon::launcher {

// −log softmax(logits)[target], in double. Not finite where the logits are not.
double negative_log_likelihood(std::span<const float> logits, int32_t target);

// The index of the largest value, the first of equals. `values` is not empty.
int32_t argmax(std::span<const float> values);

}  // namespace tenon::launcher
