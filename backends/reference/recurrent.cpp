// Ops whose store is a state: short_conv and gated_delta_rule, with the transactions of tenon_step (abi.h). One
// function advances a state by one row, wherever the row comes from, so that taped and plain steps give equal bits.
#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

// A sequence's part of a step.
struct Transaction {
  Transaction(const tenon_step& step, uint32_t s)
      : row0(entry(step.row_start, s)),
        rows(entry(step.row_start, s + 1) - row0),
        accepted(entry(step.accepted, s)),
        replay(entry(step.replay, s)),
        tape(entry(step.tape, s)),
        tape_start(entry(step.tape_start, s)) {
    if (accepted < 0 || accepted > TENON_DECODE_MAX_TOKENS || (accepted && (replay < 0 || replay > 1)) || tape > 1 ||
        (tape >= 0 && (tape_start < 0 || tape_start + rows > TENON_DECODE_MAX_TOKENS)) ||
        (accepted && tape >= 0 && tape == replay))
      throw sdk::Error(TENON_INVALID_ARGUMENT,
                       sdk::text("sequence %u: %d rows, %d accepted of tape %d, tape %d from row %d", s, rows, accepted,
                                 replay, tape, tape_start));
  }
  int32_t row0, rows, accepted, replay, tape, tape_start;
};

class ShortConv final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const int64_t channels = node.in()[0].cols, taps = node.attr<tenon_short_conv_attr>().taps;
    const int64_t history = taps - 1 + 2 * TENON_DECODE_MAX_TOKENS + int64_t(request.max_rows);
    return uint64_t(floats(channels * taps) + floats(channels) + floats(history * channels));
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_short_conv_attr>();
    const int64_t channels = call.in(0).cols, taps = attr.taps, keep = taps - 1;
    const float* w = call.decoded(0);
    float* y = call.take(channels);
    float* history = call.take((keep + 2 * TENON_DECODE_MAX_TOKENS + int64_t(call.facts().max_rows)) * channels);
    const tenon_store& store = call.store(0);
    const uint32_t seqs = live(call.step().n_seqs);
    for (uint32_t s = 0; s < seqs; ++s) {
      const Transaction t(call.step(), s);
      const int64_t slot = entry(store.table, s), half = entry(call.step().half, s);
      float* base = sdk::at<float>(store.base, slot * store.page_bytes);
      float* tapes = sdk::at<float>(store.aux, slot * store.aux_bytes);
      const auto tape = [&](int which, int64_t row) {
        return tapes + (which * TENON_DECODE_MAX_TOKENS + row) * channels;
      };
      // history: base, accepted rows, earlier rows of the transaction, this step's rows.
      int64_t n = 0;
      const auto append = [&](const float* row) { std::memcpy(history + n++ * channels, row, size_t(channels) * 4); };
      for (int64_t i = 0; i < keep; ++i) append(base + (half * keep + i) * channels);
      for (int64_t i = 0; i < t.accepted; ++i) append(tape(t.replay, i));
      int64_t base_end = n;
      if (t.tape >= 0)
        for (int64_t i = 0; i < t.tape_start; ++i) append(tape(t.tape, i));
      for (int64_t i = 0; i < t.rows; ++i, ++n) {
        read_row(call.in(0), t.row0 + i, history + n * channels);
        if (t.tape >= 0) std::memcpy(tape(t.tape, t.tape_start + i), history + n * channels, size_t(channels) * 4);
        for (int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < taps; ++j) sum += double(w[c * taps + j]) * history[(n - keep + j) * channels + c];
          y[c] = float(activate(attr.activation, sum));
        }
        write_row(call.out(0), t.row0 + i, y);
      }
      if (t.tape < 0) base_end = n;
      if (t.tape < 0 || t.accepted > 0)
        std::memcpy(base + (1 - half) * keep * channels, history + (base_end - keep) * channels,
                    size_t(keep * channels) * 4);
    }
  }
};

// What one row does to one head's state.
struct DeltaRow {
  const float *k, *v;
  float decay, beta;
};
// S ← e^g S; d = β (v − Sᵀk); S ← S + k dᵀ. The state is rounded to f32 once a row. `d` is scratch for dv numbers.
void advance(float* state, const DeltaRow& row, int64_t dk, int64_t dv, double* d) {
  std::fill_n(d, dv, 0.0);
  for (int64_t i = 0; i < dk; ++i)
    for (int64_t j = 0; j < dv; ++j) d[j] += double(row.decay) * state[i * dv + j] * row.k[i];
  for (int64_t j = 0; j < dv; ++j) d[j] = row.beta * (row.v[j] - d[j]);
  for (int64_t i = 0; i < dk; ++i)
    for (int64_t j = 0; j < dv; ++j) state[i * dv + j] = float(double(row.decay) * state[i * dv + j] + row.k[i] * d[j]);
}

class GatedDeltaRule final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    return OpKernel::workspace(node, request) +
           uint64_t(floats(node.stores()[0].tape_cols) + floats(node.stores()[0].cols_k * node.stores()[0].cols_v) +
                    doubles(node.stores()[0].cols_v));
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_gated_delta_rule_attr>();
    const int64_t nk = attr.key_heads, nv = attr.value_heads, dk = attr.key_dim, dv = attr.value_dim;
    const float *decay_rate = call.decoded(0), *bias = call.decoded(1);
    float *q = call.take(nk * dk), *b = call.take(nv), *a = call.take(nv), *o = call.take(nv * dv);
    const int64_t row_cols = nk * dk + nv * dv + 2 * nv;
    float *row = call.take(row_cols), *scratch = call.take(nv * dk * dv);
    auto* sums = call.take<double>(dv);
    const tenon_store& store = call.store(0);
    const int64_t tape_cols = call.store_type(0).tape_cols;
    if (tape_cols != row_cols)
      throw sdk::Error(TENON_INVALID_ARGUMENT,
                       sdk::text("a tape row holds %lld numbers; the op has %lld", static_cast<long long>(tape_cols),
                                 static_cast<long long>(row_cols)));
    const auto key_head = [&](int64_t h) { return attr.head_map == TENON_HEAD_MAP_MOD ? h % nk : h / (nv / nk); };
    const auto apply = [&](float* state, const float* taped) {
      const float *v = taped + nk * dk, *decay = v + nv * dv, *beta = decay + nv;
      for (int64_t h = 0; h < nv; ++h)
        advance(state + h * dk * dv, {taped + key_head(h) * dk, v + h * dv, decay[h], beta[h]}, dk, dv, sums);
    };
    const uint32_t seqs = live(call.step().n_seqs);
    for (uint32_t s = 0; s < seqs; ++s) {
      const Transaction t(call.step(), s);
      const int64_t slot = entry(store.table, s);
      float* state = sdk::at<float>(store.base, slot * store.page_bytes);
      float* tapes = sdk::at<float>(store.aux, slot * store.aux_bytes);
      const auto tape = [&](int which, int64_t r) { return tapes + (which * TENON_DECODE_MAX_TOKENS + r) * tape_cols; };
      for (int32_t i = 0; i < t.accepted; ++i) apply(state, tape(t.replay, i));
      if (t.tape >= 0) {
        std::memcpy(scratch, state, size_t(nv * dk * dv) * 4);
        state = scratch;
        for (int32_t i = 0; i < t.tape_start; ++i) apply(state, tape(t.tape, i));
      }
      for (int32_t i = 0; i < t.rows; ++i) {
        const int64_t r = t.row0 + i;
        float *v = row + nk * dk, *decay = v + nv * dv, *beta = decay + nv;
        read_row(call.in(0), r, q), read_row(call.in(1), r, row), read_row(call.in(2), r, v);
        read_row(call.in(3), r, b), read_row(call.in(4), r, a);
        for (int64_t h = 0; h < nv; ++h) {
          const double x = double(a[h]) + bias[h];
          decay[h] = float(std::exp(decay_rate[h] * (x > 20.0 ? x : std::log1p(std::exp(x)))));
          beta[h] = float(activate(TENON_ACT_SIGMOID, b[h]));
        }
        if (t.tape >= 0) std::memcpy(tape(t.tape, t.tape_start + i), row, size_t(row_cols) * 4);
        apply(state, row);
        for (int64_t h = 0; h < nv; ++h) {
          std::fill_n(sums, dv, 0.0);
          for (int64_t c = 0; c < dk; ++c)
            for (int64_t j = 0; j < dv; ++j)
              sums[j] += double(state[h * dk * dv + c * dv + j]) * q[key_head(h) * dk + c];
          for (int64_t j = 0; j < dv; ++j) o[h * dv + j] = float(sums[j] * attr.scale);
        }
        write_row(call.out(0), r, o);
      }
    }
  }
};

}  // namespace

void register_recurrent(sdk::Registrar& registrar) {
  add_kernel<ShortConv>(registrar, "short_conv");
  add_kernel<GatedDeltaRule>(registrar, "gated_delta_rule");
}

}  // namespace tenon::reference
