// panel.hpp: the packed form of NVFP4 weights. Included by sources that are built once an instruction set.
//
// Output rows are taken 16 at a time, a panel; lane l of a vector is row 16 p + l. A panel is
//   factors  f32 [16]
//   then for each 64 columns
//     scales  E4M3 [4][16]: of 16 columns each
//     codes   E2M1 [8][16][8]: of 8 columns each; the lowest four bits of a lane's 32 are the first column's
// and panels follow each other without a gap. The last unit has scales for 64 columns and codes for those there are.
// Lanes past the last row are zero. A row with a scale that is not a number has that for a factor.
#pragma once

#include <cstdint>

namespace tenon::fp4 {

constexpr int64_t kRows = 16, kGroup = 16, kUnitCols = 64, kUnitBytes = 64 + 512, kWordCols = 8;

constexpr uint32_t kLayout = 0x46340001u;  // "F4", 1

static inline const uint8_t* unit(const uint8_t* panel, int64_t c) { return panel + 64 + c / kUnitCols * kUnitBytes; }
static inline int64_t scale_offset(int64_t c) { return c % kUnitCols / kGroup * kRows; }
static inline int64_t code_offset(int64_t c) { return 64 + c % kUnitCols / kWordCols * 64; }
static inline int64_t panel_bytes(int64_t cols) { return 64 + (cols + kUnitCols - 1) / kUnitCols * 64 + cols * 8; }

}  // namespace tenon::fp4
