// yᵢ = x Wᵢᵀ over decoded operands, folded in f64 in ascending k.
#include <algorithm>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

// Sums in flight, each a chain of its own, in pairs that every machine has registers for.
constexpr int64_t kColumns = 8, kPairs = kColumns / 2;
using Pair = double __attribute__((vector_size(2 * sizeof(double))));

class Linear final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const int64_t k = node.in()[0].cols;
    return uint64_t(doubles(int64_t(request.max_rows) * k) + doubles(kColumns * k) + floats(k));
  }

  // Rows first … first + n - 1 of the weight as columns of w; columns without a row are 0.
  static void read_columns(const tenon_weight& weight, int64_t first, int64_t n, float* row, Pair* w) {
    for (int64_t j = 0; j < kColumns; ++j) {
      if (j < n) decode_rows(weight, first + j, 1, row);
      for (int64_t c = 0; c < weight.cols; ++c) w[c * kPairs + j / 2][j % 2] = j < n ? double(row[c]) : 0.0;
    }
  }

  void run(Call& call) const override {
    const int64_t k = call.in(0).cols, rows = call.rows();
    auto* x = call.take<double>(rows * k);
    auto* w = call.take<Pair>(k * kPairs);
    float* row = call.take(k);
    for (int64_t r = 0; r < rows; ++r) {
      read_row(call.in(0), r, row);
      std::copy_n(row, k, x + r * k);
    }
    for (int i = 0; i < int(call.n_weight()); ++i) {
      for (int64_t o = 0; o < call.out(i).cols; o += kColumns) {
        const int64_t n = std::min(call.out(i).cols - o, kColumns);
        read_columns(call.weight(i), o, n, row, w);
        for (int64_t r = 0; r < rows; ++r) {
          Pair sum[kPairs] = {};
          for (int64_t c = 0; c < k; ++c)
            for (int64_t p = 0; p < kPairs; ++p) sum[p] += x[r * k + c] * w[c * kPairs + p];
          for (int64_t j = 0; j < n; ++j) write_element(call.out(i), r, o + j, float(sum[j / 2][j % 2]));
        }
      }
    }
  }
};

}  // namespace

void register_linear(sdk::Registrar& registrar) { add_kernel<Linear>(registrar, "linear"); }

}  // namespace tenon::reference
