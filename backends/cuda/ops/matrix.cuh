// matrix.cuh: a weight's matrix with all planes, and eight of its numbers as f32.
#pragma once

#include "packed.cuh"

namespace tenon::cuda {

struct Matrix {
  const uint8_t* data;
  int64_t row_bytes;
  int32_t rows, cols;
  Codec codec;
  const uint8_t *scales, *macro;  // of codecs of several planes
  bool is_packed;
  PackedShape packed;
};
inline Matrix matrix_of(const tenon_weight& w, Codec codec) {
  const bool is_packed = w.layout == kPackedLayout;
  return {array<uint8_t>(w.plane[TENON_PLANE_CODES]),
          w.row_bytes,
          int32_t(w.rows),
          int32_t(w.cols),
          codec,
          array<uint8_t>(w.plane[TENON_PLANE_SCALES]),
          array<uint8_t>(w.plane[TENON_PLANE_MACRO]),
          is_packed,
          is_packed ? packed_shape(codec, w.rows, w.cols) : PackedShape{}};
}

// Of a matrix whose form is known as the kernel runs: codecs_any.cuh.
__device__ void read_any(const Matrix& m, int64_t row, int64_t k, int n, float* w);

// Columns k … k + 7 of a row as the file has it, as Decoder says. kNone: the matrix's own codec, packed or not.
template <Codec codec>
__device__ inline void read_eight(const Matrix& m, int64_t row, int64_t k, int n, float* w) {
  if constexpr (codec == Codec::kNone) {
    read_any(m, row, k, n, w);
  } else {
    Decoder<codec>::read(m.data + row * m.row_bytes, k, n, w);
  }
}

}  // namespace tenon::cuda
