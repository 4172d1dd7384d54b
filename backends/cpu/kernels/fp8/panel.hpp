// panel.hpp: the packed form of E4M3 weights. Included by sources that are built once an instruction set.
//
// Output rows are taken 16 at a time, a panel; lane l of a vector is row 16 p + l. A panel is
//   factors  f32 [16]
//   scales   f32 of each 128 columns, if the file has a grid of 128 × 128: padded to a multiple of 64 bytes
//   codes    [cols][16]: padded likewise
// and panels follow each other without a gap. Lanes past the last row are zero. A row with a code that is not a number
// has that for a factor.
#pragma once

#include <cstdint>

namespace tenon::fp8 {

constexpr int64_t kRows = 16, kGridCols = 128;

// Layout ids: "F8", then 1 without a grid, 2 with one.
constexpr uint32_t kPlain = 0x46380001u, kGrid = 0x46380002u;

static inline int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static inline int64_t codes_offset(uint32_t layout, int64_t cols) {
  return 64 + (layout == kGrid ? padded((cols + kGridCols - 1) / kGridCols * 4) : 0);
}
static inline int64_t panel_bytes(uint32_t layout, int64_t cols) {
  return codes_offset(layout, cols) + padded(cols * kRows);
}

}  // namespace tenon::fp8
