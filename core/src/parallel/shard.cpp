#include "shard.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace tenon::parallel {

int64_t length(const Ranges& ranges) {
  int64_t n = 0;
  for (const Range& range : ranges) n += range.end - range.begin;
  return n;
}

void append(Ranges& ranges, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

int64_t position(const Ranges& ranges, int64_t at) {
  int64_t before = 0;
  for (const Range& range : ranges) {
    if (at >= range.begin && at < range.end) return before + at - range.begin;
    before += range.end - range.begin;
  }
  return -1;
}

std::optional<Ranges> in_units(const Ranges& ranges, int64_t unit) {
  Ranges out;
  for (const Range& range : ranges) {
    if (range.begin % unit || range.end % unit) return std::nullopt;
    out.push_back({range.begin / unit, range.end / unit});
  }
  return out;
}

Ranges times(const Ranges& units, int64_t unit) {
  Ranges out;
  for (const Range& range : units) out.push_back({range.begin * unit, range.end * unit});
  return out;
}

Ranges Shard::of_rank(uint32_t rank, uint32_t n_ranks) const {
  const size_t share = parts.size() / n_ranks;
  Ranges all;
  for (size_t p = rank * share; p < (rank + 1) * share; ++p) all.insert(all.end(), parts[p].begin(), parts[p].end());
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  Ranges out;
  for (const Range& range : all) append(out, out.empty() ? range.begin : std::max(range.begin, out.back().end), range.end);
  return out;
}

Shard cut(const Axis& axis, uint32_t n_parts) {
  const auto refuse = [&](const std::string& rule) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} cannot be cut in {}: {}", axis.name, axis.size, n_parts, rule));
  };
  const tenon_segment whole = {axis.size, uint32_t(axis.align), 0};
  const std::span<const tenon_segment> segments = axis.segments.empty() ? std::span(&whole, 1) : axis.segments;
  Shard out;
  out.parts.resize(n_parts);
  int64_t begin = 0;
  for (const tenon_segment& segment : segments) {
    const int64_t unit = std::max<int64_t>(segment.unit, 1);
    if (segment.rows % unit) refuse(fmt::format("{} are no whole number of units of {}", segment.rows, unit));
    const int64_t n = segment.rows / unit, period = segment.period ? segment.period : n;
    const bool repeats = axis.repeat_if_short && period < int64_t(n_parts);
    if (repeats ? n_parts % period != 0 : period % n_parts != 0) {
      const std::string why = axis.segments.empty() && axis.align > 1 ? fmt::format(", {},", axis.align_why) : "";
      refuse(fmt::format("{} {} of {}{} {} not divide among {}", period, period == 1 ? "unit" : "units", unit, why, period == 1 ? "does" : "do", n_parts));
    }
    for (uint32_t p = 0; p < n_parts; ++p) {
      const int64_t first = p * period / n_parts, last = repeats ? first + 1 : (p + 1) * period / n_parts;
      for (int64_t turn = 0; turn * period < n; ++turn)
        append(out.parts[p], begin + (turn * period + first) * unit, begin + std::min(turn * period + last, n) * unit);
    }
    begin += segment.rows;
  }
  if (begin != axis.size) refuse(fmt::format("its segments have {}", begin));
  for (const Ranges& part : out.parts)
    for (const Range& range : part)
      if (range.begin % axis.align || (range.end % axis.align && range.end != axis.size))
        refuse(fmt::format("the border at {} is no multiple of {}, {}", range.begin % axis.align ? range.begin : range.end, axis.align, axis.align_why));
  return out;
}

Shard seen_through(const Shard& shard, int64_t col0, int64_t cols, int64_t groups, int64_t group_step) {
  Shard out;
  const int64_t width = cols / groups;
  for (const Ranges& part : shard.parts) {
    Ranges& seen = out.parts.emplace_back();
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = col0 + g * group_step;
      for (const Range& range : part)
        append(seen, g * width + std::max(range.begin - begin, int64_t(0)), g * width + std::min(range.end - begin, width));
    }
  }
  return out;
}

std::optional<Strided> as_view(const Ranges& owned, const Ranges& wanted) {
  // Where the wanted elements lie, as runs of neighbours.
  Ranges runs;
  for (const Range& want : wanted)
    for (int64_t at = want.begin; at < want.end;) {
      const int64_t first = position(owned, at);
      if (first < 0) return std::nullopt;
      const auto in = std::find_if(owned.begin(), owned.end(), [&](const Range& r) { return at >= r.begin && at < r.end; });
      const int64_t n = std::min(in->end, want.end) - at;
      if (!runs.empty() && runs.back().end > first) return std::nullopt;
      append(runs, first, first + n);
      at += n;
    }
  if (runs.empty()) return std::nullopt;
  const int64_t width = runs[0].end - runs[0].begin;
  const int64_t step = runs.size() > 1 ? runs[1].begin - runs[0].begin : 0;
  for (size_t g = 0; g < runs.size(); ++g)
    if (runs[g].end - runs[g].begin != width || runs[g].begin != runs[0].begin + int64_t(g) * step) return std::nullopt;
  return Strided{runs[0].begin, width * int64_t(runs.size()), int64_t(runs.size()), step};
}

}  // namespace tenon::parallel
