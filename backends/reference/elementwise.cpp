// Ops that treat each element, or each row's columns, on their own.
#include <cmath>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {

double activate(uint32_t activation, double x) {
  switch (activation) {
    case TENON_ACT_NONE:
      return x;
    case TENON_ACT_SILU:
      return x / (1.0 + std::exp(-x));
    case TENON_ACT_SIGMOID:
      return 1.0 / (1.0 + std::exp(-x));
    case TENON_ACT_GELU_TANH:
      return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default:
      throw sdk::Error(TENON_UNSUPPORTED, sdk::text("activation %u is no function of one value", activation));
  }
}

// act(gate) × up, with the limits of tenon_glu_attr.
double glu(uint32_t activation, double limit, double alpha, double gate, double up) {
  if (limit > 0) {
    if (up > limit) up = limit;
    if (up < -limit) up = -limit;
  }
  if (activation == TENON_ACT_SWIGLU_OAI) {
    if (limit > 0 && gate > limit) gate = limit;
    return gate / (1.0 + std::exp(-alpha * gate)) * (up + 1.0);
  }
  double x = activate(activation, gate);
  if (limit > 0 && x > limit) x = limit;
  return x * up;
}

namespace {

// y[c] = f(a[c], b[c])
template <typename F>
void map2(Call& call, F&& f) {
  const int64_t cols = call.out(0).cols;
  float *a = call.take(cols), *b = call.take(cols);
  for (int64_t r = 0; r < call.rows(); ++r) {
    read_row(call.in(0), r, a), read_row(call.in(1), r, b);
    for (int64_t c = 0; c < cols; ++c) a[c] = float(f(double(a[c]), double(b[c])));
    write_row(call.out(0), r, a);
  }
}
template <typename F>
void map1(Call& call, F&& f) {
  const int64_t cols = call.out(0).cols;
  float* a = call.take(cols);
  for (int64_t r = 0; r < call.rows(); ++r) {
    read_row(call.in(0), r, a);
    for (int64_t c = 0; c < cols; ++c) a[c] = float(f(double(a[c]), c));
    write_row(call.out(0), r, a);
  }
}

class Add final : public OpKernel {
  void run(Call& call) const override {
    if (call.n_in() == 2) return map2(call, [](double a, double b) { return a + b; });
    const float* w = call.decoded(0);
    map1(call, [&](double a, int64_t c) { return a + w[c]; });
  }
};

class Mul final : public OpKernel {
  void run(Call& call) const override {
    if (call.n_in() == 2) return map2(call, [](double a, double b) { return a * b; });
    const float* w = call.decoded(0);
    const bool one = count(call.weight(0)) == 1;
    map1(call, [&](double a, int64_t c) { return a * w[one ? 0 : c]; });
  }
};

class Scale final : public OpKernel {
  void run(Call& call) const override {
    const double factor = call.attr<tenon_scale_attr>().factor;
    map1(call, [&](double a, int64_t) { return a * factor; });
  }
};

class Softcap final : public OpKernel {
  void run(Call& call) const override {
    const double cap = call.attr<tenon_scale_attr>().factor;
    map1(call, [&](double a, int64_t) { return cap * std::tanh(a / cap); });
  }
};

class Glu final : public OpKernel {
  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_glu_attr>();
    map2(call, [&](double gate, double up) { return glu(attr.activation, attr.limit, attr.alpha, gate, up); });
  }
};

class Gate final : public OpKernel {
  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_gate_attr>();
    const int64_t cols = call.in(0).cols;
    float *x = call.take(cols), *g = call.take(call.in(1).cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x), read_row(call.in(1), r, g);
      for (int64_t c = 0; c < cols; ++c) x[c] = float(x[c] * activate(attr.activation, g[c / attr.group]));
      write_row(call.out(0), r, x);
    }
  }
};

class Concat final : public OpKernel {
  void run(Call& call) const override {
    float* row = call.take(call.out(0).cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, row), read_row(call.in(1), r, row + call.in(0).cols);
      write_row(call.out(0), r, row);
    }
  }
};

class Encode final : public OpKernel {
  sdk::Offer refine(const sdk::Node& node, sdk::Offer offer) const override {
    const uint32_t encoding = node.attr<tenon_encode_attr>().encoding;
    if (encoding != TENON_ENC_F32 && encoding != TENON_ENC_BF16 && encoding != TENON_ENC_F16 &&
        encoding != TENON_ENC_Q8_32)
      return sdk::refuse("encodes to f32, bf16, f16 and q8_32, not to encoding %u", encoding);
    if (encoding == TENON_ENC_Q8_32 && node.in()[0].cols % 32)
      return sdk::refuse("%lld columns are no whole number of blocks of 32", static_cast<long long>(node.in()[0].cols));
    return offer.emits(0, sdk::Encoding(encoding));
  }
  void run(Call& call) const override {
    map1(call, [](double a, int64_t) { return a; });
  }
};

}  // namespace

void register_elementwise(sdk::Registrar& registrar) {
  add_kernel<Add>(registrar, "add");
  add_kernel<Mul>(registrar, "mul");
  add_kernel<Scale>(registrar, "scale");
  add_kernel<Softcap>(registrar, "softcap");
  add_kernel<Glu>(registrar, "glu");
  add_kernel<Gate>(registrar, "gate");
  add_kernel<Concat>(registrar, "concat");
  add_kernel<Encode>(registrar, "encode");
}

}  // namespace tenon::reference
