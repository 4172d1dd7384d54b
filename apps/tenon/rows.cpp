#include "rows.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::launcher {

double negative_log_likelihood(std::span<const float> logits, int32_t target) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float value : logits) sum += std::exp(static_cast<double>(value) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
}

int32_t argmax(std::span<const float> values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace tenon::launcher
