#include "tensor_checks.hpp"

#include <algorithm>
#include <tenon/error.hpp>
#include <unordered_set>

#include "printable.hpp"

namespace tenon::source {
namespace {

constexpr uint32_t kMostDims = 4, kMostPlanes = 4;

[[noreturn]] void fail(const std::string& tensor, const std::string& message) {
  throw Error(ErrorKind::kFile, "tensor '" + printable(tensor) + "': " + message);
}

std::vector<int64_t> checked_dims(const std::string& tensor, const int64_t (&dim)[4], uint32_t n_dim) {
  if (n_dim < 1 || n_dim > kMostDims) fail(tensor, std::to_string(n_dim) + " dimensions, expected 1 to 4");
  int64_t elements = 1;
  for (uint32_t i = 0; i < n_dim; ++i) {
    if (dim[i] < 1)
      fail(tensor, "dimension " + std::to_string(i) + " is " + std::to_string(dim[i]) + ", expected at least 1");
    if (__builtin_mul_overflow(elements, dim[i], &elements)) fail(tensor, "more than 2^63 elements");
  }
  return {dim, dim + n_dim};
}

// Bytes of a plane with those dimensions, whose blocks lie along dimension 0.
uint64_t plane_bytes(const std::string& tensor, const tenon_dtype& dtype, const std::vector<int64_t>& dim) {
  const std::string name(dtype.name.data, size_t(dtype.name.size));
  if (dtype.block_cols == 0 || dtype.block_bytes == 0) fail(tensor, "dtype " + name + " has no block size");
  if (dim[0] % dtype.block_cols != 0) {
    fail(tensor, std::to_string(dim[0]) + " columns are no multiple of the block of " + name + ", which is " +
                     std::to_string(dtype.block_cols));
  }
  uint64_t bytes = uint64_t(dim[0] / dtype.block_cols);
  bool overflow = __builtin_mul_overflow(bytes, uint64_t(dtype.block_bytes), &bytes);
  for (size_t i = 1; i < dim.size(); ++i) overflow |= __builtin_mul_overflow(bytes, uint64_t(dim[i]), &bytes);
  if (overflow) fail(tensor, "its size passes 2^64 bytes");
  return bytes;
}

Plane checked_plane(const std::string& tensor, const tenon_plane& record, std::span<const FileExtent> files,
                    const plugin::Registry& registry) {
  Plane plane = {record.role,   record.dtype, record.file, checked_dims(tensor, record.dim, record.n_dim),
                 record.offset, record.bytes};
  const std::string what = "plane " + std::to_string(plane.role);
  if (plane.role >= kMostPlanes) fail(tensor, what + " has no meaning, expected 0 to 3");
  if (plane.file >= files.size()) {
    fail(tensor, what + " lies in file " + std::to_string(plane.file) + " of " + std::to_string(files.size()));
  }
  const FileExtent& file = files[plane.file];
  if (plane.offset > file.size || plane.bytes > file.size - plane.offset) {
    fail(tensor, what + " has " + std::to_string(plane.bytes) + " bytes at byte " + std::to_string(plane.offset) +
                     " of '" + file.name + "', which has only " + std::to_string(file.size));
  }
  const tenon_dtype* dtype = registry.dtype(plane.dtype);
  if (!dtype) fail(tensor, what + ": dtype " + std::to_string(plane.dtype) + " is not registered");
  const uint64_t expected = plane_bytes(tensor, *dtype, plane.dim);
  if (expected != plane.bytes) {
    fail(tensor,
         what + " has " + std::to_string(plane.bytes) + " bytes, but its dimensions mean " + std::to_string(expected));
  }
  return plane;
}

// Elements of plane `role` that a weight of several planes has by its dtype's record.
int64_t expected_elements(const Tensor& tensor, const tenon_dtype& dtype, uint32_t role) {
  int64_t experts = 1;
  for (size_t i = 2; i < tensor.dim.size(); ++i) experts *= tensor.dim[i];
  if (role == TENON_PLANE_MACRO || dtype.tile_rows == 0) return experts;
  const int64_t tile_rows = dtype.tile_rows, tile_cols = dtype.tile_cols ? int64_t(dtype.tile_cols) : tensor.cols();
  return experts * ((tensor.rows() - 1) / tile_rows + 1) * ((tensor.cols() - 1) / tile_cols + 1);
}

// A decoder reads every plane that the record names, so each must be there and whole.
void check_companions(const Tensor& tensor, const tenon_dtype& dtype) {
  for (uint32_t role = 1; role < std::min(dtype.n_plane, kMostPlanes); ++role) {
    if (dtype.plane_bytes[role] == 0) continue;
    const std::string name(dtype.name.data, size_t(dtype.name.size)), what = "plane " + std::to_string(role);
    const auto plane =
        std::find_if(tensor.planes.begin(), tensor.planes.end(), [role](const Plane& p) { return p.role == role; });
    if (plane == tensor.planes.end())
      fail(tensor.name, "has no " + what + ", which a weight of dtype " + name + " needs");
    const uint64_t expected = uint64_t(expected_elements(tensor, dtype, role)) * dtype.plane_bytes[role];
    if (plane->bytes != expected)
      fail(tensor.name, what + " has " + std::to_string(plane->bytes) + " bytes, but a weight of dtype " + name +
                            " with these dimensions needs " + std::to_string(expected));
  }
}

}  // namespace

Tensor checked_tensor(const tenon_tensor& record, std::span<const FileExtent> files, const plugin::Registry& registry) {
  Tensor tensor;
  tensor.name.assign(record.name.data, size_t(record.name.size));
  if (tensor.name.empty()) throw Error(ErrorKind::kFile, "a tensor has no name");
  if (!registry.dtype(record.dtype)) fail(tensor.name, "dtype " + std::to_string(record.dtype) + " is not registered");
  tensor.dtype = record.dtype;
  tensor.dim = checked_dims(tensor.name, record.dim, record.n_dim);
  if (record.n_plane < 1 || record.n_plane > kMostPlanes || !record.plane) {
    fail(tensor.name, std::to_string(record.n_plane) + " planes, expected 1 to 4");
  }
  uint32_t roles = 0;
  for (uint32_t i = 0; i < record.n_plane; ++i) {
    tensor.planes.push_back(checked_plane(tensor.name, record.plane[i], files, registry));
    const Plane& plane = tensor.planes.back();
    if (roles >> plane.role & 1) fail(tensor.name, "plane " + std::to_string(plane.role) + " is there twice");
    roles |= 1u << plane.role;
    if (plane.role == TENON_PLANE_CODES && (plane.dtype != tensor.dtype || plane.dim != tensor.dim)) {
      fail(tensor.name, "its codes have other dimensions or another dtype than the tensor");
    }
  }
  if (!(roles & 1u << TENON_PLANE_CODES)) fail(tensor.name, "has no codes");
  tensor.factors_apart = roles >> TENON_PLANE_MACRO & 1 && registry.dtype(tensor.dtype)->n_plane <= TENON_PLANE_MACRO;
  if (tensor.factors_apart) {
    const Plane& macro = *tensor.plane(TENON_PLANE_MACRO);
    if (macro.dtype != TENON_DTYPE_F32 || (macro.bytes != 4 && macro.bytes / 4 != uint64_t(tensor.experts())))
      fail(tensor.name, "its factors are not f32, one or one for each of its " + std::to_string(tensor.experts()) + " experts");
  }
  check_companions(tensor, *registry.dtype(tensor.dtype));
  return tensor;
}

void check_tensors_apart(const std::vector<Tensor>& tensors, std::span<const FileExtent> files) {
  struct Range {
    const Plane* plane;
    const Tensor* tensor;
  };
  std::unordered_set<std::string_view> names;
  std::vector<Range> ranges;
  for (const Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) fail(tensor.name, "is there twice");
    // Only codes: a tensor of scales may be listed by itself and be a plane of another.
    for (const Plane& plane : tensor.planes) {
      if (plane.role == TENON_PLANE_CODES) ranges.push_back({&plane, &tensor});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.plane->file != b.plane->file ? a.plane->file < b.plane->file : a.plane->offset < b.plane->offset;
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const Plane &left = *ranges[i - 1].plane, &right = *ranges[i].plane;
    if (left.file != right.file || left.offset + left.bytes <= right.offset) continue;
    fail(ranges[i].tensor->name, "begins at byte " + std::to_string(right.offset) + " of '" + files[right.file].name +
                                     "', inside tensor '" + printable(ranges[i - 1].tensor->name) + "'");
  }
}

}  // namespace tenon::source
