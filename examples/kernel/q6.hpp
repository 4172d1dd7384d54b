// q6.hpp: the dtype example_q6. A block holds 32 columns of a row in 26 bytes:
//   bfloat16 scale
//   32 codes of 6 bits, four in three bytes, lowest bits first; value = scale × (code − 32)
#pragma once

#include <tenon/abi.h>

namespace example {

constexpr int kBlockCols = 32, kBlockBytes = 26;

// `cols` values, a multiple of 32, from the blocks of a row.
void decode_row(const uint8_t* blocks, int64_t cols, float* out) noexcept;

// The record to register. Lives as long as the library.
const tenon_dtype* q6_dtype();

}  // namespace example
