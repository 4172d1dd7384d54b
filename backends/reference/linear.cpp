// yᵢ = x Wᵢᵀ over decoded operands, folded in f64 in ascending k.
#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

constexpr int64_t kColumns = 4;  // sums in flight; each is a chain of its own

class Linear final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const int64_t k = node.in()[0].cols;
    return uint64_t(floats(int64_t(request.max_rows) * k) + floats(kColumns * k));
  }
  void run(Call& call) const override {
    const int64_t k = call.in(0).cols, rows = call.rows();
    float *x = call.take(rows * k), *w = call.take(kColumns * k);
    for (int64_t r = 0; r < rows; ++r) read_row(call.in(0), r, x + r * k);
    for (int i = 0; i < int(call.n_weight()); ++i) {
      for (int64_t o = 0, n = 0; o < call.out(i).cols; o += n) {
        n = call.out(i).cols - o < kColumns ? call.out(i).cols - o : kColumns;
        decode_rows(call.weight(i), o, n, w);
        for (int64_t j = n; j < kColumns; ++j) std::memcpy(w + j * k, w, size_t(k) * 4);
        for (int64_t r = 0; r < rows; ++r) {
          double sum[kColumns] = {};
          for (int64_t c = 0; c < k; ++c)
            for (int64_t j = 0; j < kColumns; ++j) sum[j] += double(x[r * k + c]) * w[j * k + c];
          for (int64_t j = 0; j < n; ++j) write_element(call.out(i), r, o + j, float(sum[j]));
        }
      }
    }
  }
};

}  // namespace

void register_linear(sdk::Registrar& registrar) { add_kernel<Linear>(registrar, "linear"); }

}  // namespace tenon::reference
