// pages.hpp: where a row of a paged store lies. For sources built once an instruction set.
#pragma once

#include "op_plan.hpp"

namespace tenon::cpu {

static inline int64_t row_bytes_of(const tenon_dtype* record, int64_t cols) {
  return cols / record->block_cols * record->block_bytes;
}

// Begin of a sequence's page; null where it was given back or never came.
static inline uint8_t* page_of(const tenon_store* store, int64_t seq, int64_t page) {
  const int32_t place = pointer_at<int32_t>(store->table, seq * int64_t(store->table_stride))[page];
  if (place < 0) return nullptr;
  return pointer_at<uint8_t>(store->base, place * store->page_bytes);
}

// Rows of a store as a weight, for the functions of their dtype's record.
static inline tenon_weight row_as_weight(uint32_t dtype, const uint8_t* at, int64_t row_bytes, int64_t rows,
                                         int64_t cols) {
  tenon_weight w = {};
  w.struct_size = sizeof w, w.dtype = dtype;
  w.plane[0] = reinterpret_cast<tenon_addr>(at);
  w.rows = rows, w.cols = cols, w.row_bytes = row_bytes;
  return w;
}

}  // namespace tenon::cpu
