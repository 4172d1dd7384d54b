// share.hpp: a rank's share of a matrix, gathered from the planes that the files hold.
#pragma once

#include "graph/graph.hpp"

#include <tenon/abi.h>

#include <cstdint>

namespace tenon::program {

// These rows, and of them these columns; empty = all. Their borders lie between blocks and between tiles of scales.
struct Share {
  graph::Ranges rows, cols;
  int64_t all_rows = 0, all_cols = 0;
  bool is_all() const { return rows.empty() && cols.empty(); }
};

// Bytes of a plane that holds `rows` rows of the share, and of a row of its codes.
uint64_t share_bytes(const Share& share, const tenon_dtype& dtype, uint32_t role, int64_t rows);
// Where row `row` of the share begins in such a plane; the row begins a tile.
uint64_t share_offset(const Share& share, const tenon_dtype& dtype, uint32_t role, int64_t row);
// Rows row0 … row0 + rows - 1 of the share, from the whole matrix's plane to `out`.
void copy_share(const Share& share, const tenon_dtype& dtype, uint32_t role, const uint8_t* plane, int64_t row0, int64_t rows, uint8_t* out);
// Rows of the matrix that these rows of the share lie between.
graph::Range rows_around(const Share& share, int64_t row0, int64_t rows);

}  // namespace tenon::program
