// linear_bf16.hpp: what the host decides about products of bf16: which weights are read as they are, and the workspace of
// the others.
#pragma once

#include <algorithm>

#include "op_plan.hpp"
#include "packed.hpp"

namespace tenon::cuda {

constexpr int64_t kMostDecodedBytes = int64_t(256) << 20;  // more rows are decoded slice by slice

inline bool is_read_as_bf16(const tenon_weight& w, Codec codec) { return codec == Codec::kBf16 && w.row_bytes % 16 == 0; }
inline int64_t decoded_row_bytes(int64_t cols) { return (cols + 7) / 8 * 16; }
// Rows of a slice, whole tiles of 128 but for the last.
inline int64_t decoded_rows(int64_t rows, int64_t cols) {
  const int64_t fit = kMostDecodedBytes / decoded_row_bytes(cols) / 128 * 128;
  return std::min(rows, std::max<int64_t>(fit, 128));
}

}  // namespace tenon::cuda
