#include "share.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::program {
namespace {

// A plane as rows of elements: blocks of codes, or scales of tiles. Everything is counted in elements.
struct Grid {
  int64_t rows_an_element = 1, cols_an_element = 0;  // 0: a row is one element
  uint64_t element_bytes = 0;
  int64_t row_of(int64_t row) const { return row / rows_an_element; }
  int64_t n_rows(int64_t rows) const { return (rows + rows_an_element - 1) / rows_an_element; }
  int64_t n_cols(int64_t cols) const { return cols_an_element ? (cols + cols_an_element - 1) / cols_an_element : 1; }
};

Grid grid_of(const tenon_dtype& dtype, uint32_t role) {
  if (role == TENON_PLANE_CODES) return {1, dtype.block_cols, dtype.block_bytes};
  return {std::max<int64_t>(dtype.tile_rows, 1), dtype.tile_cols, dtype.plane_bytes[role]};
}

int64_t length(const graph::Ranges& ranges, int64_t all) {
  if (ranges.empty()) return all;
  int64_t n = 0;
  for (const graph::Range& range : ranges) n += range.end - range.begin;
  return n;
}

// Row of the whole matrix that row `row` of the share is.
int64_t row_in_all(const Share& share, int64_t row) {
  for (const graph::Range& range : share.rows) {
    if (row < range.end - range.begin) return range.begin + row;
    row -= range.end - range.begin;
  }
  return row;
}

}  // namespace

uint64_t share_bytes(const Share& share, const tenon_dtype& dtype, uint32_t role, int64_t rows) {
  const Grid grid = grid_of(dtype, role);
  return uint64_t(grid.n_rows(rows) * grid.n_cols(length(share.cols, share.all_cols))) * grid.element_bytes;
}

uint64_t share_offset(const Share& share, const tenon_dtype& dtype, uint32_t role, int64_t row) {
  const Grid grid = grid_of(dtype, role);
  return uint64_t(grid.row_of(row) * grid.n_cols(length(share.cols, share.all_cols))) * grid.element_bytes;
}

void copy_share(const Share& share, const tenon_dtype& dtype, uint32_t role, const uint8_t* plane, int64_t row0, int64_t rows, uint8_t* out) {
  const Grid grid = grid_of(dtype, role);
  const uint64_t step = uint64_t(grid.n_cols(share.all_cols)) * grid.element_bytes;
  const graph::Ranges all = {{0, share.all_cols}};
  for (int64_t row = row0; row < row0 + rows; row += grid.rows_an_element) {
    const uint8_t* from = plane + uint64_t(grid.row_of(row_in_all(share, row))) * step;
    for (const graph::Range& range : share.cols.empty() ? all : share.cols) {
      const int64_t first = grid.cols_an_element ? range.begin / grid.cols_an_element : 0;
      const uint64_t bytes = uint64_t(grid.n_cols(range.end) - first) * grid.element_bytes;
      std::memcpy(out, from + uint64_t(first) * grid.element_bytes, bytes);
      out += bytes;
      if (!grid.cols_an_element) break;
    }
  }
}

graph::Range rows_around(const Share& share, int64_t row0, int64_t rows) {
  return {row_in_all(share, row0), row_in_all(share, row0 + rows - 1) + 1};
}

}  // namespace tenon::program
