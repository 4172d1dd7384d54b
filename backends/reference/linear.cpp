// yᵢ = x Wᵢᵀ over decoded operands, folded in f64 in ascending k.
#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

class Linear final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const int64_t k = node.in()[0].cols;
    int64_t outputs = 0;
    for (const tenon_type& type : node.out()) outputs += floats(int64_t(request.max_rows) * type.cols);
    return uint64_t(floats(int64_t(request.max_rows) * k) + floats(k) + outputs);
  }
  void run(Call& call) const override {
    const int64_t k = call.in(0).cols, rows = call.rows();
    float *x = call.take(rows * k), *w = call.take(k);
    for (int64_t r = 0; r < rows; ++r) read_row(call.in(0), r, x + r * k);
    for (uint32_t i = 0; i < call.n_weight(); ++i) {
      const int64_t n = call.out(int(i)).cols;
      float* y = call.take(rows * n);
      for (int64_t o = 0; o < n; ++o) {
        decode_rows(call.weight(int(i)), o, 1, w);
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0;
          for (int64_t c = 0; c < k; ++c) sum += double(x[r * k + c]) * w[c];
          y[r * n + o] = float(sum);
        }
      }
      for (int64_t r = 0; r < rows; ++r) write_row(call.out(int(i)), r, y + r * n);
    }
  }
};

}  // namespace

void register_linear(sdk::Registrar& registrar) { add_kernel<Linear>(registrar, "linear"); }

}  // namespace tenon::reference
