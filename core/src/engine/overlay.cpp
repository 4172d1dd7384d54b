#include "overlay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tenon/error.hpp>

namespace tenon {

int64_t longest_span(const Overlay& overlay) {
  const auto& [rows, positions, spans] = overlay;
  if (!spans.empty() && spans.size() != positions.size())
    throw Error(ErrorKind::kUsage, fmt::format("{} span ids for {} positions", spans.size(), positions.size()));
  std::set<int32_t> ended;
  int64_t longest = 0, length = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (i && positions[i] <= positions[i - 1])
      throw Error(ErrorKind::kUsage, fmt::format("position {} behind {} (entry {}): positions must ascend",
                                                 positions[i], positions[i - 1], i));
    if (spans.empty() || spans[i] < 0) continue;
    const bool goes_on = i && spans[i] == spans[i - 1] && positions[i] == positions[i - 1] + 1;
    if (!goes_on && !ended.insert(spans[i]).second)
      throw Error(
          ErrorKind::kUsage,
          fmt::format("span {} begins again at position {}: its rows must follow one another", spans[i], positions[i]));
    length = goes_on ? length + 1 : 1;
    longest = std::max(longest, length);
  }
  return longest;
}

namespace engine {

void check_overlay(const Entry& entry, const Feed& feed, const ForwardOptions& options, int64_t most) {
  const Overlay& overlay = feed.overlay;
  if (overlay.positions.empty() && overlay.rows.empty() && overlay.spans.empty()) return;
  const int64_t cols = entry.overlay_cols();
  if (!cols)
    throw Error(ErrorKind::kUsage,
                fmt::format("entry {} takes no overlay rows: the model was loaded without them", entry.name));
  if (overlay.rows.size() != overlay.positions.size() * size_t(cols))
    throw Error(ErrorKind::kUsage, fmt::format("{} overlay values for {} positions, expected {} a row",
                                               overlay.rows.size(), overlay.positions.size(), cols));
  const int64_t longest = longest_span(overlay);
  for (int32_t position : overlay.positions)
    if (position < 0 || size_t(position) >= feed.tokens.size())
      throw Error(ErrorKind::kUsage,
                  fmt::format("an overlay row at position {} of {} tokens", position, feed.tokens.size()));
  if (longest && !entry.graph.sees_spans)
    throw Error(ErrorKind::kUsage, "spans of overlay rows: no attention of this model sees them both ways");
  if (options.decode_step && longest > int64_t(options.decode_step))
    throw Error(ErrorKind::kUsage, fmt::format("a span of {} rows does not fit into decode steps of {} tokens", longest,
                                               options.decode_step));
  if (longest > most)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("a span of {} rows does not fit into the prefill chunk of {} that the model was loaded with",
                    longest, most));
}

std::vector<UncutSpan> spans_of(const Overlay& overlay, int64_t first) {
  std::vector<UncutSpan> out;
  for (size_t i = 0; i < overlay.spans.size(); ++i) {
    if (overlay.spans[i] < 0) continue;
    if (i == 0 || overlay.spans[i] != overlay.spans[i - 1]) out.push_back({first + overlay.positions[i], 0});
    out.back().end = first + overlay.positions[i] + 1;
  }
  return out;
}

Overlay part_of(const Overlay& overlay, int64_t begin, int64_t n) {
  const auto& [rows, positions, spans] = overlay;
  if (positions.empty()) return {};
  const auto first = std::lower_bound(positions.begin(), positions.end(), begin),
             last = std::lower_bound(first, positions.end(), begin + n);
  const size_t at = size_t(first - positions.begin()), count = size_t(last - first),
               cols = rows.size() / positions.size();
  return {rows.subspan(at * cols, count * cols), positions.subspan(at, count),
          spans.empty() ? spans : spans.subspan(at, count)};
}

int64_t uncut_step(const Overlay& overlay, int64_t at, int64_t n) {
  for (const UncutSpan& span : spans_of(overlay, 0))
    if (span.begin < at + n && at + n < span.end && span.begin > at) return span.begin - at;
  return n;
}

}  // namespace engine
}  // namespace tenon
