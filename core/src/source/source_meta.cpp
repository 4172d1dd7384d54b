#include "source_meta.hpp"

#include <algorithm>
#include <tenon/error.hpp>

#include "printable.hpp"

namespace tenon::source {

void SourceMeta::add_key(std::string_view key, const tenon_value& value) {
  const auto fail = [key](const char* message) {
    throw Error(ErrorKind::kFile, "metadata key '" + printable(key) + "': " + message);
  };
  if (value.type < TENON_VALUE_U8 || value.type > TENON_VALUE_ARRAY) fail("the format gives a value of unknown type");
  if (value.type == TENON_VALUE_ARRAY) {
    if (value.element < TENON_VALUE_U8 || value.element > TENON_VALUE_STRING)
      fail("the format gives an array of unknown type");
    if (value.count > 0 && !value.data) fail("the format gives an array without its elements");
  }
  if (!key_index_.emplace(keys_.emplace_back(key), values_.size()).second) fail("is there twice");
  values_.push_back(value);
}

void SourceMeta::add_tensor(Tensor tensor) { tensors_.push_back(std::move(tensor)); }

void SourceMeta::finish() {
  size_t n_plane = 0;
  for (const Tensor& tensor : tensors_) n_plane += tensor.planes.size();
  planes_.reserve(n_plane);  // the records point into it
  for (const Tensor& tensor : tensors_) {
    tenon_tensor record = {};
    record.struct_size = sizeof record, record.dtype = tensor.dtype,
    record.name = {tensor.name.data(), tensor.name.size()};
    record.n_dim = uint32_t(tensor.dim.size()), record.n_plane = uint32_t(tensor.planes.size());
    std::fill(record.dim, record.dim + 4, 1);
    std::copy(tensor.dim.begin(), tensor.dim.end(), record.dim);
    record.plane = planes_.data() + planes_.size();
    for (const Plane& plane : tensor.planes) {
      tenon_plane out = {plane.role,   plane.dtype,  plane.file, uint32_t(plane.dim.size()),
                         {1, 1, 1, 1}, plane.offset, plane.bytes};
      std::copy(plane.dim.begin(), plane.dim.end(), out.dim);
      planes_.push_back(out);
    }
    tensor_index_.emplace(tensor.name, records_.size());
    records_.push_back(record);
  }
}

const tenon_value* SourceMeta::find(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &values_[found->second];
}

const Tensor* SourceMeta::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

bool SourceMeta::tensor(std::string_view name, tenon_tensor* out) const {
  const auto found = tensor_index_.find(name);
  return found != tensor_index_.end() && tensor_at(found->second, out);
}

bool SourceMeta::tensor_at(uint64_t i, tenon_tensor* out) const {
  if (i >= records_.size()) return false;
  *out = records_[i];
  return true;
}

}  // namespace tenon::source
