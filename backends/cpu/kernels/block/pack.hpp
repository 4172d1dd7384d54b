// pack.hpp: from the file's blocks to panels and back.
#pragma once

#include <tenon/abi.h>

#include <cstdint>

#include "types.hpp"

namespace tenon::block {

// Packs rows row0 … row0 + rows - 1 of a weight in the file's layout, in host memory, into `dst`, the begin of the
// whole packed weight. row0 is a multiple of 16. Lanes past the slice's last row are written as zero, so `rows` is a
// multiple of 16 but in the weight's last slice. Slices may be packed at the same time.
void pack_rows(Type type, const tenon_weight& src, int64_t row0, int64_t rows, uint8_t* dst);

// Row `row` of a packed weight as f32 × factor, `cols` numbers; bit for bit the product of the dtype's definition and
// `factor`.
void unpack_row(Type type, const uint8_t* packed, int64_t cols, int64_t row, float factor, float* out);

// IEEE binary16 to f32, exact.
float half_to_float(uint16_t half);

}  // namespace tenon::block
