#include "rows.hpp"

#include <tenon/error.hpp>

#include <cstring>

#include "plugin/plugin_host.hpp"

namespace tenon::quantize {
namespace {

const tenon_dtype& dtype_of(const source::Tensor& tensor, const plugin::Registry& registry) {
  const tenon_dtype* dtype = registry.dtype(tensor.dtype);
  if (!dtype || !dtype->decode) throw Error(ErrorKind::kFile, "tensor " + tensor.name + ": no plugin decodes its dtype");
  return *dtype;
}

}  // namespace

TensorRows::TensorRows(const source::ModelSource& source, const source::Tensor& tensor, const plugin::Registry& registry)
    : tensor_(tensor), dtype_(dtype_of(tensor, registry)) {
  weight_.struct_size = sizeof weight_, weight_.dtype = tensor.dtype;
  weight_.rows = tensor.rows(), weight_.cols = tensor.cols();
  weight_.row_bytes = tensor.cols() / dtype_.block_cols * dtype_.block_bytes;
  if (dtype_.n_plane == 1) {
    for (size_t i = 2; i < tensor.dim.size(); ++i) weight_.rows *= tensor.dim[i];
  } else if (tensor.experts() > 1) {
    weight_.n_expert = uint32_t(tensor.experts()), weight_.expert_stride = weight_.row_bytes * tensor.rows();
  }
  for (const source::Plane& plane : tensor.planes) {
    const uint8_t* data = source.data(plane);
    if (plane.role == TENON_PLANE_MACRO && tensor.factors_apart) {
      factors_.resize(plane.bytes / sizeof(float));
      std::memcpy(factors_.data(), data, factors_.size() * sizeof(float));
    } else if (plane.role < 4) {
      weight_.plane[plane.role] = reinterpret_cast<tenon_addr>(data);
    }
  }
}

void TensorRows::read(int64_t row0, int64_t n, float* out) const {
  plugin::check_status(dtype_.decode(&weight_, row0, n, out), "tensor " + tensor_.name);
  if (factors_.empty()) return;
  for (int64_t row = row0; row < row0 + n; ++row) {
    const size_t expert = factors_.size() == 1 ? 0 : size_t(row / tensor_.rows());
    for (int64_t c = 0; c < weight_.cols; ++c) *out++ *= factors_.at(expert);
  }
}

}  // namespace tenon::quantize
