#include "prefill_plan.hpp"

#include <algorithm>

namespace tenon::engine {
namespace {

constexpr int64_t kGrid = TENON_PAGE_TOKENS;
constexpr int64_t kPrefillMin = TENON_DECODE_MAX_TOKENS + 1;
constexpr int64_t kFirstSpacing = 512;

int64_t on_grid(int64_t position) { return position / kGrid * kGrid; }

// Is some of the distances 512, 1024, 2048 … in (after, distance]?
bool passes_a_spacing(int64_t distance, int64_t after) {
  int64_t spacing = kFirstSpacing;
  while (spacing <= after) spacing *= 2;
  return spacing <= distance;
}

}  // namespace

std::vector<PrefillChunk> plan_prefill(int64_t begin, int64_t n, int64_t cap, const std::map<int64_t, Mark>* wanted,
                                       std::span<const UncutSpan> uncut) {
  std::vector<PrefillChunk> out;
  const int64_t end = begin + n;
  int64_t at = begin;
  const auto go_to = [&](int64_t position) {
    for (int64_t length : plan_chunks(at, position - at, cap, uncut)) out.push_back({length, std::nullopt});
    at = position;
  };
  if (!wanted) return go_to(end), out;
  for (const auto& [position, mark] : *wanted) {
    if (position <= at || end - position < kPrefillMin) continue;
    if (position - at < kPrefillMin) {
      out.push_back({position - at, mark});  // from off the grid
    } else {
      go_to(position);
      out.back().mark = mark;
    }
    at = position;
  }
  go_to(end);
  int64_t distance = n;
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    distance -= out[i].n;
    if (!out[i].mark && passes_a_spacing(distance, distance - out[i + 1].n)) out[i].mark = Mark::kSpaced;
  }
  return out;
}

std::map<int64_t, Mark> wanted_checkpoints(int64_t n, const ResumeOptions& options, int64_t most) {
  std::map<int64_t, Mark> out;
  // A conversation that begins with many messages would leave checkpoints that push each other out.
  const auto& ends = options.message_ends;
  const size_t n_ends = std::min(ends.size(), size_t(std::max<int64_t>(1, most / 2)));
  for (int64_t position : ends.last(n_ends)) out[on_grid(std::clamp<int64_t>(position, 0, n))] = Mark::kMessageEnd;
  // The same prompt again, for another answer.
  out[on_grid(std::max<int64_t>(0, n - kPrefillMin))] = Mark::kMessageEnd;
  out[on_grid(std::clamp<int64_t>(options.static_prefix, 0, n))] = Mark::kStaticPrefix;
  out.erase(0);
  return out;
}

}  // namespace tenon::engine
