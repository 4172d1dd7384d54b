// Rows of values, weights and stores as f32, whatever their encoding or dtype.
#pragma once

#include <cstdint>
#include <tenon/sdk/kernel.hpp>

namespace tenon::reference {

// A row of any encoding (i32 as numbers), plain or strided, to `cols` floats.
void read_row(const tenon_view& view, int64_t row, float* out);
// A row of floats to the view's encoding: rounded to nearest even, q8_32 as abi.h defines it.
void write_row(const tenon_view& view, int64_t row, const float* values);
// One element of a row; not for encodings by blocks.
void write_element(const tenon_view& view, int64_t row, int64_t col, float value);
int32_t read_id(const tenon_view& view, int64_t row, int64_t col);

// Rows row0 … row0 + n - 1 of a weight, by its dtype's own decoder. Throws what the decoder answers.
void decode_rows(const tenon_weight& weight, int64_t row0, int64_t n, float* out);
inline void decode_all(const tenon_weight& weight, float* out) { decode_rows(weight, 0, weight.rows, out); }
inline int64_t count(const tenon_weight& weight) { return weight.rows * weight.cols; }

// `cols` numbers of a store's row in its dtype.
int64_t stored_bytes(uint32_t dtype,
                     int64_t cols);  // 0: the dtype is unknown, or cols is no whole number of its blocks
bool can_store(uint32_t dtype);      // it can be encoded and decoded
void store_row(uint32_t dtype, tenon_addr address, const float* values, int64_t cols);
void load_row(uint32_t dtype, tenon_addr address, float* values, int64_t cols);

// Live numbers of the step.
inline uint32_t live(tenon_addr count) { return *sdk::at<uint32_t>(count); }
inline int32_t entry(tenon_addr array, int64_t i) { return sdk::at<int32_t>(array)[i]; }

}  // namespace tenon::reference
