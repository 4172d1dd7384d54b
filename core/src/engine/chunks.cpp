#include "chunks.hpp"

#include <tenon/abi.h>

namespace tenon::engine {

std::vector<int64_t> plan_chunks(int64_t begin, int64_t n, int64_t cap, int64_t grid) {
  constexpr int64_t kMin = TENON_DECODE_MAX_TOKENS + 1;
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
    out.push_back(cut - at);
    at = cut;
  }
  return out;
}

int64_t longest_chunk(int64_t cap, int64_t grid) {
  return cap > grid ? cap : grid + 2 * int64_t(TENON_DECODE_MAX_TOKENS);
}

}  // namespace tenon::engine
