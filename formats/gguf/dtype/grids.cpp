// grids.cpp: see grids.hpp.
#include "grids.hpp"

#include <tenon/sdk/codebooks.hpp>

namespace tenon::gguf {
namespace {

using namespace sdk::codebook;

template <size_t Entries, size_t Width, size_t Levels, size_t Words>
Grid<Entries, Width> expand(const uint64_t (&map)[Words], const int8_t (&level)[Levels]) {
  Grid<Entries, Width> grid = {};
  size_t entry = 0;
  for (size_t n = 0; n < 64 * Words && entry < Entries; ++n) {
    if (!(map[n / 64] >> n % 64 & 1)) continue;
    size_t rest = n;
    for (int8_t& value : grid[entry]) value = level[rest % Levels], rest /= Levels;
    ++entry;
  }
  return grid;
}

}  // namespace

const Grid<2048, 8>& iq1_grid() {
  static const auto grid = expand<2048, 8>(kIq1, kTernary);
  return grid;
}
const Grid<256, 8>& iq2_xxs_grid() {
  static const auto grid = expand<256, 8>(kIq2Xxs, kIq2Level);
  return grid;
}
const Grid<512, 8>& iq2_xs_grid() {
  static const auto grid = expand<512, 8>(kIq2Xs, kIq2Level);
  return grid;
}
const Grid<1024, 8>& iq2_s_grid() {
  static const auto grid = expand<1024, 8>(kIq2S, kIq2Level);
  return grid;
}
const Grid<256, 4>& iq3_xxs_grid() {
  static const auto grid = expand<256, 4>(kIq3Xxs, kIq3XxsLevel);
  return grid;
}
const Grid<512, 4>& iq3_s_grid() {
  static const auto grid = expand<512, 4>(kIq3S, kIq3SLevel);
  return grid;
}

}  // namespace tenon::gguf
