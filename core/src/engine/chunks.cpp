#include "chunks.hpp"

#include <tenon/abi.h>

#include <algorithm>

namespace tenon::engine {
namespace {

constexpr int64_t kMin = TENON_DECODE_MAX_TOKENS + 1;

// The cut of a chunk that begins at `at`, moved out of the span that it would go through.
int64_t beside_spans(int64_t at, int64_t cut, int64_t end, std::span<const UncutSpan> uncut) {
  const auto torn = std::find_if(uncut.begin(), uncut.end(),
                                 [&](const UncutSpan& span) { return span.begin < cut && cut < span.end; });
  if (torn == uncut.end()) return cut;
  if (torn->begin - at >= kMin) return torn->begin;
  return end - torn->end < kMin ? end : torn->end;
}

}  // namespace

std::vector<int64_t> plan_chunks(int64_t begin, int64_t n, int64_t cap, std::span<const UncutSpan> uncut,
                                 int64_t grid) {
  std::vector<int64_t> out;
  const int64_t end = begin + n;
  int64_t at = begin;
  while (at < end) {
    // The farthest grid point within the cap, and at least 16 tokens on.
    int64_t cut = (at + cap) / grid * grid;
    while (cut - at < kMin) cut += grid;
    if (cut >= end) cut = end;
    if (end - cut > 0 && end - cut < kMin) {
      if (cut - grid - at >= kMin) {
        cut -= grid;
      } else {
        cut = end;
      }
    }
    cut = beside_spans(at, cut, end, uncut);
    out.push_back(cut - at);
    at = cut;
  }
  return out;
}

int64_t longest_chunk(int64_t cap, bool with_spans, int64_t grid) {
  return cap > grid && !with_spans ? cap : cap + 2 * int64_t(TENON_DECODE_MAX_TOKENS);
}

}  // namespace tenon::engine
