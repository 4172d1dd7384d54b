#include "bound_rows.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::quantize {
namespace {

[[noreturn]] void fail(const graph::Weight& weight, const std::string& what) {
  throw Error(ErrorKind::kFile, fmt::format("tensor {}: {}", weight.name, what));
}

// A value for each of the same place of a tensor; its shape may be another.
class ElementRows final : public RowReader {
 public:
  ElementRows(std::unique_ptr<RowReader> rows, const source::Tensor& tensor, const graph::Weight& weight, uint32_t transform)
      : rows_(std::move(rows)), cols_(weight.cols), transform_(transform) {
    if (tensor.cols() == weight.cols) return;
    // A vector that is declared as another kind of vector, or taps behind an axis of one: small, so read at once.
    int64_t n = 1;
    for (size_t i = 1; i < tensor.dim.size(); ++i) n *= tensor.dim[i];
    const int64_t wanted = weight.rows * std::max<int64_t>(1, weight.n_expert);
    if (n * tensor.cols() != wanted * weight.cols)
      fail(weight, fmt::format("has {} values, expected {}", n * tensor.cols(), wanted * weight.cols));
    all_.resize(size_t(n * tensor.cols()));
    rows_->read(0, n, all_.data());
  }
  void read(int64_t row0, int64_t n, float* out) const override {
    if (all_.empty()) {
      rows_->read(row0, n, out);
    } else {
      std::copy_n(all_.begin() + row0 * cols_, n * cols_, out);
    }
    const std::span values(out, size_t(n * cols_));
    if (transform_ == TENON_TRANSFORM_ADD_ONE)
      for (float& v : values) v += 1.0f;
    if (transform_ == TENON_TRANSFORM_MINUS_EXP)
      for (float& v : values) v = -std::exp(v);
  }

 private:
  std::unique_ptr<RowReader> rows_;
  int64_t cols_;
  uint32_t transform_;
  std::vector<float> all_;
};

// Pieces of rows, each from a reader of its own or from another place.
class PieceRows final : public RowReader {
 public:
  struct Piece {
    const RowReader* rows;
    int64_t row0;
  };
  PieceRows(std::vector<std::unique_ptr<RowReader>> readers, std::vector<Piece> pieces, int64_t rows_per_piece, int64_t cols)
      : readers_(std::move(readers)), pieces_(std::move(pieces)), step_(rows_per_piece), cols_(cols) {}
  void read(int64_t row0, int64_t n, float* out) const override {
    while (n > 0) {
      const Piece& piece = pieces_.at(size_t(row0 / step_));
      const int64_t inside = row0 % step_, count = std::min(n, step_ - inside);
      piece.rows->read(piece.row0 + inside, count, out);
      row0 += count, n -= count, out += count * cols_;
    }
  }

 private:
  std::vector<std::unique_ptr<RowReader>> readers_;
  std::vector<Piece> pieces_;
  int64_t step_, cols_;
};

std::unique_ptr<RowReader> stacked_rows(const source::ModelSource& source, const graph::Binding& binding, const graph::Weight& weight,
                                        const plugin::Registry& registry) {
  std::vector<std::unique_ptr<RowReader>> readers;
  std::vector<PieceRows::Piece> pieces;
  for (int64_t e = 0; e < weight.n_expert; ++e) {
    const auto found = binding.experts.find(e);
    if (found == binding.experts.end()) fail(weight, fmt::format("expert {} is missing", e));
    if (found->second->cols() != weight.cols || found->second->rows() != weight.rows)
      fail(weight, fmt::format("expert {} has another shape than [{}, {}]", e, weight.cols, weight.rows));
    readers.push_back(std::make_unique<TensorRows>(source, *found->second, registry));
    pieces.push_back({readers.back().get(), 0});
  }
  return std::make_unique<PieceRows>(std::move(readers), std::move(pieces), weight.rows, weight.cols);
}

std::unique_ptr<RowReader> sliced_rows(const source::ModelSource& source, const graph::Binding& binding, const graph::Weight& weight,
                                       const plugin::Registry& registry) {
  const source::Tensor& tensor = *binding.tensor;
  const int64_t experts = std::max<int64_t>(1, weight.n_expert), matrices = weight.n_expert ? 1 : tensor.experts();
  if (tensor.cols() != weight.cols || tensor.experts() != experts * matrices || tensor.rows() * matrices != binding.group ||
      binding.a < 0 || binding.b > binding.group || binding.b - binding.a != weight.rows)
    fail(weight, fmt::format("rows {} to {} of tensor {} do not fit it", binding.a, binding.b - 1, tensor.name));
  std::vector<std::unique_ptr<RowReader>> readers;
  readers.push_back(std::make_unique<TensorRows>(source, tensor, registry));
  std::vector<PieceRows::Piece> pieces;
  for (int64_t e = 0; e < experts; ++e) pieces.push_back({readers.back().get(), e * binding.group + binding.a});
  return std::make_unique<PieceRows>(std::move(readers), std::move(pieces), weight.rows, weight.cols);
}

// Tensors of different heights behind one another.
class JoinedRows final : public RowReader {
 public:
  JoinedRows(const source::ModelSource& source, const graph::Binding& binding, const graph::Weight& weight,
             const plugin::Registry& registry)
      : cols_(weight.cols) {
    for (const source::Tensor* tensor : binding.joined) {
      parts_.push_back({std::make_unique<TensorRows>(source, *tensor, registry), tensor->rows()});
      // A vector is one row; joined, their entries are.
      if (weight.rows != 1) continue;
      std::vector<float> entries(size_t(tensor->cols()));
      parts_.back().rows->read(0, 1, entries.data());
      vector_.insert(vector_.end(), entries.begin(), entries.end());
    }
  }
  void read(int64_t row0, int64_t n, float* out) const override {
    if (!vector_.empty()) {
      std::copy_n(vector_.begin(), n * cols_, out);
      return;
    }
    for (const Part& part : parts_) {
      const int64_t count = std::min(n, part.count - row0);
      if (count > 0) {
        part.rows->read(row0, count, out);
        row0 += count, n -= count, out += count * cols_;
      }
      row0 -= part.count;
      if (n == 0) return;
    }
  }

 private:
  struct Part {
    std::unique_ptr<RowReader> rows;
    int64_t count;
  };
  std::vector<Part> parts_;
  std::vector<float> vector_;
  int64_t cols_;
};

// A matrix turned: its rows are columns of the tensor, which is read again for each slice of them.
class TurnedRows final : public RowReader {
 public:
  TurnedRows(std::unique_ptr<RowReader> rows, int64_t first, const graph::Weight& weight)
      : rows_(std::move(rows)), first_(first), n_rows_(weight.rows), n_cols_(weight.cols) {}
  void read(int64_t row0, int64_t n, float* out) const override {
    std::vector<float> row(static_cast<size_t>(n_rows_));
    for (int64_t c = 0; c < n_cols_; ++c) {
      rows_->read(first_ + c, 1, row.data());
      for (int64_t r = 0; r < n; ++r) out[r * n_cols_ + c] = row[size_t(row0 + r)];
    }
  }

 private:
  std::unique_ptr<RowReader> rows_;
  int64_t first_, n_rows_, n_cols_;
};

// place[i]: which row or column of the source is the i-th of the file.
std::vector<int64_t> places(const tenon_reorder& order, int64_t count, const graph::Weight& weight) {
  int64_t inner = 0, all = 0;
  const bool sound = order.first >= 0 && order.outer > 0 && order.a > 0 && order.b > 0 && order.unit > 0 &&
                     !__builtin_mul_overflow(order.a, order.b, &inner) && !__builtin_mul_overflow(inner, order.unit, &inner) &&
                     !__builtin_mul_overflow(inner, order.outer, &all) && all <= count && order.first <= count - all;
  if (!sound) fail(weight, fmt::format("the architecture's order leaves its {} {}", count, order.axis ? "rows" : "columns"));
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[size_t(i)] = i;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t group = i / inner, piece = i % inner / order.unit, rest = i % order.unit;
    const int64_t from = piece % order.a * order.b + piece / order.a;
    out[size_t(order.first + i)] = order.first + group * inner + from * order.unit + rest;
  }
  return out;
}

class ReorderedRows final : public RowReader {
 public:
  ReorderedRows(std::unique_ptr<RowReader> rows, const tenon_reorder& order, const graph::Weight& weight)
      : rows_(std::move(rows)), cols_(weight.cols), by_rows_(order.axis == 1),
        place_(places(order, by_rows_ ? weight.rows : weight.cols, weight)) {}
  void read(int64_t row0, int64_t n, float* out) const override {
    return by_rows_ ? read_rows(row0, n, out) : read_cols(row0, n, out);
  }

 private:
  void read_rows(int64_t row0, int64_t n, float* out) const {
    for (int64_t i = 0; i < n;) {
      const int64_t from = place_.at(size_t(row0 + i));
      int64_t run = 1;
      while (i + run < n && place_[size_t(row0 + i + run)] == from + run) ++run;
      rows_->read(from, run, out + i * cols_);
      i += run;
    }
  }
  void read_cols(int64_t row0, int64_t n, float* out) const {
    rows_->read(row0, n, out);
    std::vector<float> row(size_t(cols_), 0.0f);
    for (int64_t i = 0; i < n; ++i, out += cols_) {
      for (size_t c = 0; c < row.size(); ++c) row[c] = out[place_[c]];
      std::copy(row.begin(), row.end(), out);
    }
  }
  std::unique_ptr<RowReader> rows_;
  int64_t cols_;
  bool by_rows_;
  std::vector<int64_t> place_;
};

class ConstantRows final : public RowReader {
 public:
  explicit ConstantRows(const tenon_constant& constant) : constant_(constant) {}
  void read(int64_t row0, int64_t n, float* out) const override {
    std::copy_n(constant_.values + row0 * constant_.cols, n * constant_.cols, out);
  }

 private:
  const tenon_constant& constant_;
};

}  // namespace

std::unique_ptr<RowReader> bound_rows(const source::ModelSource& source, const graph::Binding& binding, const graph::Weight& weight,
                                      const plugin::Registry& registry) {
  if (binding.transform == TENON_TRANSFORM_STACK_EXPERTS) return stacked_rows(source, binding, weight, registry);
  if (binding.transform == TENON_TRANSFORM_SLICE_ROWS) return sliced_rows(source, binding, weight, registry);
  if (binding.transform == TENON_TRANSFORM_JOIN_ROWS) return std::make_unique<JoinedRows>(source, binding, weight, registry);
  if (binding.transform == TENON_TRANSFORM_TRANSPOSE)
    return std::make_unique<TurnedRows>(std::make_unique<TensorRows>(source, *binding.tensor, registry),
                                        binding.cuts_rows() ? binding.a : 0, weight);
  auto rows = std::make_unique<TensorRows>(source, *binding.tensor, registry);
  return std::make_unique<ElementRows>(std::move(rows), *binding.tensor, weight, binding.transform);
}

std::unique_ptr<RowReader> reordered_rows(std::unique_ptr<RowReader> rows, const tenon_reorder& order, const graph::Weight& weight) {
  if (weight.n_expert) fail(weight, "experts are not reordered");
  return std::make_unique<ReorderedRows>(std::move(rows), order, weight);
}

std::unique_ptr<RowReader> constant_rows(const tenon_constant& constant) { return std::make_unique<ConstantRows>(constant); }

}  // namespace tenon::quantize
