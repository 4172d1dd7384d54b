#include "assembled.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::program {
namespace {

bool is_float(uint32_t dtype) { return dtype == TENON_DTYPE_F32 || dtype == TENON_DTYPE_F16 || dtype == TENON_DTYPE_BF16; }

void check_joined(const graph::Binding& binding, const tenon_dtype& dtype, const std::string& weight) {
  for (const source::Tensor* tensor : binding.joined)
    for (const source::Plane& plane : tensor->planes) {
      if (plane.role == TENON_PLANE_CODES) continue;
      const bool is_last = tensor == binding.joined.back();
      // Scales lie on a grid of rows, so the joined ones are the grid of the joined matrix if no tile is cut.
      if (plane.role == TENON_PLANE_MACRO || !dtype.tile_rows || (!is_last && tensor->rows() % dtype.tile_rows))
        throw Error(ErrorKind::kFile,
                    fmt::format("tensor {}: {} rows of {} cannot be joined with others, as {} ({})", tensor->name, tensor->rows(),
                                std::string_view(dtype.name.data, dtype.name.size),
                                plane.role == TENON_PLANE_MACRO || !dtype.tile_rows
                                    ? "they have a factor of their own"
                                    : fmt::format("{} of them share scales", dtype.tile_rows),
                                weight));
    }
}

// [rows][cols] numbers of `size` bytes, which a file may hold at any address. In squares that stay in the first-level cache.
template <int64_t size>
void turn(const uint8_t* from, uint8_t* to, int64_t rows, int64_t cols) {
  constexpr int64_t kSquare = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare)
    for (int64_t c0 = 0; c0 < cols; c0 += kSquare)
      for (int64_t r = r0; r < std::min(rows, r0 + kSquare); ++r)
        for (int64_t c = c0; c < std::min(cols, c0 + kSquare); ++c)
          std::memcpy(to + (c * rows + r) * size, from + (r * cols + c) * size, size);
}

}  // namespace

void check_assembled(const graph::Binding& binding, const tenon_dtype& dtype, const std::string& weight) {
  if (binding.transform == TENON_TRANSFORM_JOIN_ROWS) return check_joined(binding, dtype, weight);
  if (!is_float(binding.tensor->dtype))
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: {} cannot be turned; f32, f16 and bf16 can ({})", binding.tensor->name,
                                              std::string_view(dtype.name.data, dtype.name.size), weight));
}

Planes joined_rows(const source::ModelSource& source, const graph::Binding& binding) {
  Planes out;
  for (const source::Tensor* tensor : binding.joined)
    for (const source::Plane& plane : tensor->planes) {
      const uint8_t* data = source.data(plane);
      out[plane.role].insert(out[plane.role].end(), data, data + plane.bytes);
      source.drop_pages(plane, 0, plane.bytes);
    }
  return out;
}

Planes transposed(const source::ModelSource& source, const graph::Binding& binding, const tenon_weight& weight) {
  const source::Plane& plane = *binding.tensor->plane(TENON_PLANE_CODES);
  const uint64_t element = binding.tensor->dtype == TENON_DTYPE_F32 ? 4 : 2;
  const uint64_t offset = binding.cuts_rows() ? uint64_t(binding.a * weight.rows) * element : 0;
  const uint64_t bytes = uint64_t(weight.rows * weight.cols) * element;
  const uint8_t* from = source.data(plane) + offset;
  Planes out;
  out[0].resize(bytes);
  const auto how = element == 4 ? turn<4> : turn<2>;
  how(from, out[0].data(), weight.cols, weight.rows);
  source.drop_pages(plane, offset, bytes);
  return out;
}

}  // namespace tenon::program
