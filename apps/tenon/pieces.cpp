#include "pieces.hpp"

#include <algorithm>
#include <cmath>

namespace tenon::launcher {

std::vector<Piece> plan_pieces(int64_t n, int64_t size, bool on_grid) {
  std::vector<Piece> pieces;
  for (int64_t begin = 0; begin < n; begin += size) pieces.push_back({begin, std::min(n, begin + size)});
  if (on_grid && pieces.size() > 1 && pieces.back().end - pieces.back().begin < kMinPrefill) {
    pieces.back().begin -= kGrid;
    pieces[pieces.size() - 2].end -= kGrid;
  }
  return pieces;
}

int64_t piece_size(int64_t vocab, int64_t rows_per_token) {
  constexpr int64_t kFloats = int64_t{1} << 26;
  const int64_t tokens = kFloats / std::max<int64_t>(1, vocab * rows_per_token);
  return std::clamp<int64_t>(tokens / kGrid * kGrid, 2 * kGrid, 8 * kGrid);
}

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
