// packed.hpp: the packed form of block-quantised weights, which every kernel of this backend reads.
//
// A matrix is cut into tiles of 16 rows, and a tile into chunks of 256 columns; the chunks of a tile follow one another,
// the last one with as many steps of 64 columns as it needs. A chunk holds, in this order:
//   scales   of its 16 rows, by kind (below)
//   planes   of one and two bits a code, for the whole chunk: vectors of 16 bytes a lane
//   steps    of four or eight bits a code, each 64 columns: one or two vectors of 16 bytes a lane
// A vector is 512 bytes, 16 for each lane of a warp, so that a warp reads it in one access. Which codes a lane has
// is what mma wants of its first operand: with g = lane / 4 and t = lane % 4, it has four registers for each group of 32
// columns, of four codes each, registers 0 and 2 of row g, 1 and 3 of row g + 8. Where scales serve 32 columns, the first
// of each pair begins at column 8t and the second at 8t + 4; where they serve 16, at 4t and at 16 + 4t.
// Rows beyond the matrix and columns beyond it have codes and scales of 0.
#pragma once

#include <cstdint>

#include "op_plan.hpp"

#ifdef __CUDACC__
#define TENON_BOTH_SIDES __host__ __device__
#else
#define TENON_BOTH_SIDES
#endif

namespace tenon::cuda {

constexpr uint32_t kPackedLayout = 1;  // tenon_weight.layout
constexpr int kTileRows = 16, kChunkCols = 256, kStepCols = 64, kVectorBytes = 512;

// What a chunk has for its rows, [16] each.
enum class ScaleKind {
  kHalf,       // f16 d[8], one for 32 columns
  kHalfMin,    // f16 d[8], then of all rows f16 m[8]
  kSuper,      // d, dmin and the twelve bytes of six-bit scales and minimums as in the file
  kBytes16,    // i8 [16], one for 16 columns; then of all rows f16 d
  kBytes32,    // i8 [8], one for 32 columns; then of all rows f16 d
  kNibblesMin  // u8 [16], scale and minimum of 16 columns; then of all rows f16 d, dmin
};

struct PackedForm {
  int ones, twos;       // bits that lie in planes: 1 if there is a plane of one, of two bits
  int step_bits;        // bits that lie in steps: 0, 4 or 8
  int offset;           // value = scale × (code − offset); 0 or half of the codes, stored in two's complement
  bool has_levels;      // codes are numbers of the 16 levels
  ScaleKind scales;
  TENON_BOTH_SIDES constexpr int bits() const { return step_bits + 2 * twos + ones; }
  // Where a code's lowest bit is put in a byte: codes with an offset are signed, so their highest bit is the byte's.
  TENON_BOTH_SIDES constexpr int low_bit() const { return offset ? 8 - bits() : 0; }
  TENON_BOTH_SIDES constexpr bool is_fine() const {
    return scales == ScaleKind::kBytes16 || scales == ScaleKind::kNibblesMin;
  }
  TENON_BOTH_SIDES constexpr bool has_min() const {
    return scales == ScaleKind::kHalfMin || scales == ScaleKind::kSuper || scales == ScaleKind::kNibblesMin;
  }
  // First column of a group that register i of lane t has.
  TENON_BOTH_SIDES constexpr int column(int t, int i) const { return is_fine() ? 4 * t + 16 * (i / 2) : 8 * t + 4 * (i / 2); }
  TENON_BOTH_SIDES constexpr int plane_vectors() const { return ones + 2 * twos; }
  TENON_BOTH_SIDES constexpr int step_vectors() const { return step_bits / 4; }
  TENON_BOTH_SIDES constexpr int scale_bytes() const {
    switch (scales) {
      case ScaleKind::kHalfMin:
        return 512;
      case ScaleKind::kBytes16:
        return 288;
      case ScaleKind::kBytes32:
        return 160;
      case ScaleKind::kNibblesMin:
        return 320;
      default:
        return 256;
    }
  }
  TENON_BOTH_SIDES constexpr int planes_at() const { return scale_bytes(); }
  TENON_BOTH_SIDES constexpr int steps_at() const { return scale_bytes() + plane_vectors() * kVectorBytes; }
  TENON_BOTH_SIDES constexpr int chunk_bytes(int steps) const { return steps_at() + steps * step_vectors() * kVectorBytes; }
};

// The form of a codec; scale_bytes of none is never asked for: see has_packed_form().
TENON_BOTH_SIDES constexpr PackedForm packed_form(Codec codec) {
  switch (codec) {
    case Codec::kQ8_0:
      return {0, 0, 8, 0, false, ScaleKind::kHalf};
    case Codec::kQ4_0:
      return {0, 0, 4, 8, false, ScaleKind::kHalf};
    case Codec::kQ4_1:
      return {0, 0, 4, 0, false, ScaleKind::kHalfMin};
    case Codec::kQ5_0:
      return {1, 0, 4, 16, false, ScaleKind::kHalf};
    case Codec::kQ5_1:
      return {1, 0, 4, 0, false, ScaleKind::kHalfMin};
    case Codec::kIq4Nl:
      return {0, 0, 4, 0, true, ScaleKind::kHalf};
    case Codec::kIq4Xs:
      return {0, 0, 4, 0, true, ScaleKind::kBytes32};
    case Codec::kQ2K:
      return {0, 1, 0, 0, false, ScaleKind::kNibblesMin};
    case Codec::kQ3K:
      return {1, 1, 0, 4, false, ScaleKind::kBytes16};
    case Codec::kQ4K:
      return {0, 0, 4, 0, false, ScaleKind::kSuper};
    case Codec::kQ5K:
      return {1, 0, 4, 0, false, ScaleKind::kSuper};
    default:  // kQ6K
      return {0, 1, 4, 32, false, ScaleKind::kBytes16};
  }
}
TENON_BOTH_SIDES constexpr bool has_packed_form(Codec codec) { return codec >= Codec::kQ8_0 && codec <= Codec::kIq4Xs; }

// Where things are in a packed matrix.
struct PackedShape {
  int32_t rows, cols, chunks;  // chunks of a tile, the last one perhaps short
  int32_t last_steps;
  int32_t chunk_bytes;
  int64_t tile_bytes;
  TENON_BOTH_SIDES constexpr int32_t tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  TENON_BOTH_SIDES constexpr int64_t bytes() const { return int64_t(tiles()) * tile_bytes; }
  TENON_BOTH_SIDES constexpr int32_t steps(int32_t chunk) const { return chunk + 1 < chunks ? kChunkCols / kStepCols : last_steps; }
};
TENON_BOTH_SIDES constexpr PackedShape packed_shape(Codec codec, int64_t rows, int64_t cols) {
  const PackedForm form = packed_form(codec);
  const int32_t chunks = int32_t((cols + kChunkCols - 1) / kChunkCols);
  const int32_t last = int32_t((cols - int64_t(chunks - 1) * kChunkCols + kStepCols - 1) / kStepCols);
  const int32_t bytes = form.chunk_bytes(kChunkCols / kStepCols);
  return {int32_t(rows), int32_t(cols), chunks, last, bytes, int64_t(chunks - 1) * bytes + form.chunk_bytes(last)};
}

}  // namespace tenon::cuda
