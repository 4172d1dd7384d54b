// cell_types.hpp: dtypes of a cache that kv_write and attention serve, known to checks and to device code.
#pragma once

#include "op_plan.hpp"

#ifdef __CUDACC__
#define TENON_CELL_FUNCTION __host__ __device__ constexpr
#else
#define TENON_CELL_FUNCTION constexpr
#endif

namespace tenon::cuda {

// Bytes of a block of 32 numbers, or 0 of a codec that caches cannot have here.
TENON_CELL_FUNCTION inline int cell_block_bytes(Codec codec) {
  switch (codec) {
    case Codec::kF32:
      return 128;
    case Codec::kF16:
    case Codec::kBf16:
      return 64;
    case Codec::kQ8_0:
      return 34;
    case Codec::kQ4_0:
      return 18;
    case Codec::kQ4_1:
      return 20;
    case Codec::kQ5_0:
      return 22;
    case Codec::kQ5_1:
      return 24;
    case Codec::kFp8:
      return 32;
    default:
      return 0;
  }
}
// Whether a row of them is a whole number of blocks only.
TENON_CELL_FUNCTION inline bool has_cell_blocks(Codec codec) { return codec >= Codec::kQ8_0 && codec <= Codec::kQ5_1; }
TENON_CELL_FUNCTION inline int64_t cell_row_bytes(Codec codec, int64_t cols) {
  return cols * cell_block_bytes(codec) / 32;
}

}  // namespace tenon::cuda
