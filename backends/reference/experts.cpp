// Mixtures of experts: route, expert_ffn, fold_slots.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

// True if a is chosen before b: higher first, NaN last, equal ones by the lower index (the caller goes upwards).
bool before(float a, float b) {
  if (std::isnan(a)) return false;
  return std::isnan(b) || a > b;
}

class Route final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    return OpKernel::workspace(node, request) + uint64_t(3 * floats(node.in()[0].cols));
  }

  // The scores are f32 by definition: a choice among rounded scores must not depend on hidden digits.
  static void gate(const tenon_route_attr& attr, const float* logits, int64_t n, float* p) {
    if (attr.gating == 1) {
      for (int64_t e = 0; e < n; ++e) p[e] = float(1.0 / (1.0 + std::exp(-double(logits[e]))));
      return;
    }
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t e = 0; e < n; ++e)
      if (logits[e] > top) top = logits[e];
    for (int64_t e = 0; e < n; ++e) {
      p[e] = logits[e] == top ? 1.0f : float(std::exp(double(logits[e]) - top));
      if (!std::isnan(p[e])) sum += p[e];
    }
    for (int64_t e = 0; e < n; ++e) p[e] /= sum;
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_route_attr>();
    const int64_t n = call.in(0).cols, top_k = attr.top_k;
    const float* bias = call.n_weight() > 0 && call.weight(0).plane[0] ? call.decoded(0) : nullptr;
    const float* scale = call.n_weight() > 1 && call.weight(1).plane[0] ? call.decoded(1) : nullptr;
    float *logits = call.take(n), *p = call.take(n), *ids = call.take(top_k), *weights = call.take(top_k);
    float *choice = call.take(n), *taken = call.take(n);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, logits);
      gate(attr, logits, n, p);
      for (int64_t e = 0; e < n; ++e) choice[e] = bias ? p[e] + bias[e] : p[e], taken[e] = 0;
      float sum = 0;
      for (int64_t i = 0; i < top_k; ++i) {
        int64_t best = -1;
        for (int64_t e = 0; e < n; ++e)
          if (taken[e] == 0 && (best < 0 || before(choice[e], choice[best]))) best = e;
        taken[best] = 1, ids[i] = float(best), weights[i] = p[best];
        sum += weights[i];
      }
      if (sum < attr.floor) sum = attr.floor;
      for (int64_t i = 0; i < top_k; ++i) {
        if (attr.normalize) weights[i] /= sum;
        weights[i] *= attr.scale;
        if (scale) weights[i] *= scale[int64_t(ids[i])];
      }
      write_row(call.out(0), r, ids), write_row(call.out(1), r, weights);
    }
  }
};

class FoldSlots final : public OpKernel {
  void run(Call& call) const override {
    const int64_t cols = call.out(0).cols, slots = call.in(1).cols;
    float *x = call.take(call.in(0).cols), *w = call.take(slots), *y = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x), read_row(call.in(1), r, w);
      for (int64_t c = 0; c < cols; ++c) {
        double sum = 0;
        for (int64_t s = 0; s < slots; ++s) sum += double(w[s]) * x[s * cols + c];
        y[c] = float(sum);
      }
      write_row(call.out(0), r, y);
    }
  }
};

// Weights 0, 1, 2: gate, up and down of all experts, an expert after the other, or where the bank's table says.
class ExpertFfn final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest&) const override {
    int64_t bytes = 3 * floats(node.in()[0].cols) + 3 * floats(node.weights()[0].rows) + 4096;
    for (const tenon_type& type : node.in()) bytes += floats(type.cols);
    return uint64_t(bytes + 2 * doubles(node.weights()[2].rows) + floats(node.out()[0].cols) +
                    floats(node.weights()[2].cols));
  }

  static tenon_weight expert(const tenon_weight& weight, int which, int64_t id, int64_t n_expert) {
    tenon_weight one = weight;
    one.n_expert = 0;
    if (weight.bank && weight.bank->address)
      one.plane[0] = sdk::at<uint64_t>(weight.bank->address)[which * n_expert + id];
    else
      one.plane[0] += uint64_t(id * weight.expert_stride);
    if (!one.plane[0])
      throw sdk::Error(TENON_INVALID_ARGUMENT,
                       sdk::text("expert %lld is not on this device", static_cast<long long>(id)));
    return one;
  }

  static double dot(const tenon_weight& weight, int64_t row, const float* x, float* buffer) {
    decode_rows(weight, row, 1, buffer);
    double sum = 0;
    for (int64_t c = 0; c < weight.cols; ++c) sum += double(x[c]) * buffer[c];
    return sum;
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_expert_ffn_attr>();
    const int64_t width = call.in(0).cols, top_k = call.in(1).cols, hidden = call.weight(0).rows;
    const int64_t out_cols = call.weight(2).rows, n_expert = call.weight(0).n_expert;
    float *x = call.take(width), *share = call.take(top_k), *w = call.take(width), *h = call.take(hidden);
    float *y = call.take(call.out(0).cols), *down_row = call.take(call.weight(2).cols);
    auto* sum = call.take<double>(out_cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x), read_row(call.in(2), r, share);
      for (int64_t c = 0; c < out_cols; ++c) sum[c] = 0;
      for (int64_t slot = 0; slot < top_k; ++slot) {
        const int64_t id = read_id(call.in(1), r, slot);
        if (id < 0 || id >= n_expert)
          throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("expert %lld of %lld", static_cast<long long>(id),
                                                             static_cast<long long>(n_expert)));
        const tenon_weight gate = expert(call.weight(0), 0, id, n_expert), up = expert(call.weight(1), 1, id, n_expert);
        const tenon_weight down = expert(call.weight(2), 2, id, n_expert);
        for (int64_t i = 0; i < hidden; ++i)
          h[i] =
              float(glu(attr.activation, attr.limit, attr.alpha, float(dot(gate, i, x, w)), float(dot(up, i, x, w))));
        for (int64_t c = 0; c < out_cols; ++c) {
          const double value = dot(down, c, h, down_row);
          if (attr.combine == 1)
            y[slot * out_cols + c] = float(value);
          else
            sum[c] += share[slot] * double(float(value));
        }
      }
      if (attr.combine == 0)
        for (int64_t c = 0; c < out_cols; ++c) y[c] = float(sum[c]);
      write_row(call.out(0), r, y);
    }
  }
};

}  // namespace

void register_experts(sdk::Registrar& registrar) {
  add_kernel<Route>(registrar, "route");
  add_kernel<ExpertFfn>(registrar, "expert_ffn");
  add_kernel<FoldSlots>(registrar, "fold_slots");
}

}  // namespace tenon::reference
