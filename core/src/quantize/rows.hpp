// rows.hpp: the values of a tensor, row by row, whatever its dtype.
#pragma once

#include "plugin/registry.hpp"
#include "source/model_source.hpp"

#include <cstdint>
#include <vector>

namespace tenon::quantize {

// Rows count through a stack of experts. Immutable; any thread.
class RowReader {
 public:
  virtual ~RowReader() = default;
  // Rows row0 … row0 + n - 1 as f32, [n][cols].
  virtual void read(int64_t row0, int64_t n, float* out) const = 0;
};

// A tensor of the source as it is, factors beside it applied. Borrows all.
class TensorRows final : public RowReader {
 public:
  // Throws Error(kFile) for a tensor whose dtype no plugin knows.
  TensorRows(const source::ModelSource& source, const source::Tensor& tensor, const plugin::Registry& registry);
  void read(int64_t row0, int64_t n, float* out) const override;

 private:
  const source::Tensor& tensor_;
  const tenon_dtype& dtype_;
  tenon_weight weight_ = {};
  std::vector<float> factors_;  // one, or one an expert; empty: none
};

}  // namespace tenon::quantize
