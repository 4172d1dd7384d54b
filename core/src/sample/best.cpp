#include "sample/best.hpp"

#include <algorithm>

namespace tenon {

Peak peak_of(std::span<const float> row) {
  constexpr size_t kLanes = 16;  // independent chains, which the compiler turns into vectors
  float best[kLanes];
  int broken[kLanes] = {};
  std::fill_n(best, kLanes, Peak().value);
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = row[i + lane];
      best[lane] = value > best[lane] ? value : best[lane];
      broken[lane] |= value != value;
    }
  }
  for (; i < row.size(); ++i) {
    best[0] = std::max(best[0], row[i]);
    broken[0] |= row[i] != row[i];
  }
  return {*std::max_element(best, best + kLanes), std::any_of(broken, broken + kLanes, [](int flag) { return flag != 0; })};
}

std::vector<IdPiece> pieces_without(const graph::Ranges& ids, std::span<const IdRange> never) {
  std::vector<IdRange> gaps(never.begin(), never.end());
  std::sort(gaps.begin(), gaps.end(), [](const IdRange& a, const IdRange& b) { return a.begin < b.begin; });
  std::vector<IdPiece> out;
  int64_t column = 0;
  for (const graph::Range& range : ids) {
    int64_t at = range.begin;
    const auto keep_until = [&](int64_t end) {
      if (at < std::min(end, range.end)) out.push_back({column + at - range.begin, at, std::min(end, range.end) - at});
    };
    for (const IdRange& gap : gaps) keep_until(gap.begin), at = std::max<int64_t>(at, gap.end);
    keep_until(range.end);
    column += range.end - range.begin;
  }
  return out;
}

BestToken best_of(std::span<const float> row, std::span<const IdPiece> pieces) {
  BestToken out;
  for (const IdPiece& piece : pieces) {
    const std::span<const float> part = row.subspan(size_t(piece.column), size_t(piece.n));
    const auto id_of = [&](auto found) { return int32_t(piece.id + (found - part.begin())); };
    const Peak peak = peak_of(part);
    if (peak.has_nan && out.not_a_number < 0)
      out.not_a_number = id_of(std::find_if(part.begin(), part.end(), [](float value) { return value != value; }));
    if (peak.value > out.logit) out.logit = peak.value, out.id = id_of(std::find(part.begin(), part.end(), peak.value));
  }
  return out;
}

BestToken better_of(const BestToken& a, const BestToken& b) {
  const bool is_b = b.id >= 0 && (a.id < 0 || b.logit > a.logit || (b.logit == a.logit && b.id < a.id));
  BestToken out = is_b ? b : a;
  out.not_a_number = a.not_a_number < 0 || b.not_a_number < 0 ? std::max(a.not_a_number, b.not_a_number) : std::min(a.not_a_number, b.not_a_number);
  return out;
}

}  // namespace tenon
