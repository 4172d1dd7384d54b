// Mixtures of experts: route, expert_ffn, fold_slots.
#include <algorithm>
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

// Defined to the bit: f32, each product rounded before it is added, the slots in order. `here`: empty, or which slots
// have their expert on this device.
float folded(const float* weight, const float* slots, int64_t n_slot, int64_t cols, int64_t c, const bool* here) {
  float sum = 0;
  for (int64_t s = 0; s < n_slot; ++s) {
    const float term = weight[s] * slots[s * cols + c];
    if (!here || here[s]) sum += term;
  }
  return sum;
}

class FoldSlots final : public OpKernel {
  void run(Call& call) const override {
    const int64_t cols = call.out(0).cols, slots = call.in(1).cols;
    float *x = call.take(call.in(0).cols), *w = call.take(slots), *y = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x), read_row(call.in(1), r, w);
      for (int64_t c = 0; c < cols; ++c) y[c] = folded(w, x, slots, cols, c, nullptr);
      write_row(call.out(0), r, y);
    }
  }
};

// Weights 0, 1, 2: gate, up and down of all experts, an expert after the other, or where the bank's table says. Expert
// after expert, so that each row of a weight is decoded once for all rows of x; the slots are folded at the end. A slot
// whose expert is not on this device is zeros, and has no part in the sum.
class ExpertFfn final : public OpKernel {
  sdk::Offer refine(const sdk::Node&, sdk::Offer offer) const override { return offer.flag(TENON_OFFER_PARTIAL_BANK); }

  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const int64_t slots = int64_t(request.max_rows) * node.in()[1].cols, width = node.in()[0].cols;
    const int64_t hidden = node.weights()[0].rows, cols = node.weights()[2].rows;
    return uint64_t(floats(int64_t(request.max_rows) * width) + floats(slots) + 2 * floats(width) +
                    floats(slots * hidden) + floats(hidden) + floats(slots * cols) + floats(node.in()[1].cols) +
                    floats(cols) + tenon_encoding_row_bytes(TENON_ENC_F32, hidden) + floats(slots));
  }

  static tenon_addr begin_of(const tenon_weight& weight, int which, int64_t id) {
    if (!weight.bank || !weight.bank->address) return weight.plane[0] + uint64_t(id * weight.expert_stride);
    return sdk::at<uint64_t>(weight.bank->address)[which * int64_t(weight.n_expert) + id];
  }
  static bool is_here(const Call& call, int64_t id) {
    return begin_of(call.weight(0), 0, id) && begin_of(call.weight(1), 1, id) && begin_of(call.weight(2), 2, id);
  }

  static tenon_weight expert(const tenon_weight& weight, int which, int64_t id) {
    tenon_weight one = weight;
    one.n_expert = 0;
    // All planes of an expert lie as far from the first expert's.
    for (tenon_addr& plane : one.plane)
      if (plane) plane += begin_of(weight, which, id) - weight.plane[0];
    return one;
  }

  static float macro(const tenon_weight& weight, int which, int64_t id) {
    if (!weight.bank || !weight.bank->macro) return 1.0f;
    return sdk::at<float>(weight.bank->macro)[which * int64_t(weight.n_expert) + id];
  }

  static double dot(const float* x, const float* w, int64_t n) {
    double sum = 0;
    for (int64_t c = 0; c < n; ++c) sum += double(x[c]) * w[c];
    return sum;
  }

  // A kernel that reads x in an encoding holds the hidden rows in it too.
  static void round_as(uint32_t encoding, float* row, int64_t n, uint8_t* code) {
    tenon_view view = {};
    view.data = reinterpret_cast<tenon_addr>(code), view.rows = 1, view.cols = n, view.groups = 1;
    view.row_bytes = tenon_encoding_row_bytes(encoding, n), view.encoding = encoding;
    write_row(view, 0, row), read_row(view, 0, row);
  }

  static void check_ids(const Call& call, int64_t n_expert) {
    for (int64_t r = 0; r < call.rows(); ++r)
      for (int64_t slot = 0; slot < call.in(1).cols; ++slot)
        if (const int64_t id = read_id(call.in(1), r, slot); id < 0 || id >= n_expert)
          throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("expert %lld is outside 0..%lld", static_cast<long long>(id),
                                                             static_cast<long long>(n_expert)));
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_expert_ffn_attr>();
    const int64_t width = call.in(0).cols, top_k = call.in(1).cols, hidden = call.weight(0).rows, rows = call.rows();
    const int64_t cols = call.weight(2).rows, n_expert = call.weight(0).n_expert;
    float *x = call.take(rows * width), *slot_of = call.take(rows * top_k), *w0 = call.take(width);
    float *w1 = call.take(width), *h = call.take(rows * top_k * hidden), *w2 = call.take(hidden);
    float *slots = call.take(rows * top_k * cols), *share = call.take(top_k), *y = call.take(cols);
    uint8_t* code = call.take<uint8_t>(tenon_encoding_row_bytes(call.in(0).encoding, hidden));
    bool* here = call.take<bool>(rows * top_k);
    std::fill_n(here, rows * top_k, true);
    check_ids(call, n_expert);
    for (int64_t r = 0; r < rows; ++r) read_row(call.in(0), r, x + r * width);
    for (int64_t id = 0; id < n_expert; ++id) {
      int64_t n = 0;  // slots of this expert
      auto* slot = reinterpret_cast<int32_t*>(slot_of);
      for (int64_t s = 0; s < rows * top_k; ++s)
        if (read_id(call.in(1), s / top_k, s % top_k) == id) slot[n++] = int32_t(s);
      if (n == 0) continue;
      if (!is_here(call, id)) {
        for (int64_t j = 0; j < n; ++j) std::fill_n(slots + slot[j] * cols, cols, 0.0f), here[slot[j]] = false;
        continue;
      }
      const tenon_weight gate = expert(call.weight(0), 0, id), up = expert(call.weight(1), 1, id);
      const tenon_weight down = expert(call.weight(2), 2, id);
      const float gate_by = macro(call.weight(0), 0, id), up_by = macro(call.weight(1), 1, id);
      for (int64_t i = 0; i < hidden; ++i) {
        decode_rows(gate, i, 1, w0), decode_rows(up, i, 1, w1);
        for (int64_t j = 0; j < n; ++j) {
          const float* row = x + slot[j] / top_k * width;
          const float g = float(dot(row, w0, width)) * gate_by, u = float(dot(row, w1, width)) * up_by;
          h[j * hidden + i] = float(glu(attr.activation, attr.limit, attr.alpha, g, u));
        }
      }
      for (int64_t j = 0; j < n; ++j) round_as(call.in(0).encoding, h + j * hidden, hidden, code);
      for (int64_t c = 0; c < cols; ++c) {
        decode_rows(down, c, 1, w2);
        for (int64_t j = 0; j < n; ++j)
          slots[slot[j] * cols + c] = float(dot(h + j * hidden, w2, hidden)) * macro(call.weight(2), 2, id);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = slots + r * top_k * cols;
      if (attr.combine == 1) {
        write_row(call.out(0), r, row);
        continue;
      }
      read_row(call.in(2), r, share);
      for (int64_t c = 0; c < cols; ++c) y[c] = folded(share, row, top_k, cols, c, here + r * top_k);
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
