// Ops on whole rows: embed, norm, rope, select_rows, logits_tail.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

class Embed final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest&) const override {
    return uint64_t(floats(node.out()[0].cols));
  }
  void run(Call& call) const override {
    const double scale = call.attr<tenon_embed_attr>().scale;
    const tenon_weight& table = call.weight(0);
    const int64_t cols = call.out(0).cols;
    float* row = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      const int32_t overlay = call.n_in() > 1 && call.step().overlay ? entry(call.step().overlay, r) : -1;
      if (overlay >= 0) {
        if (overlay >= call.in(1).rows)
          throw sdk::Error(TENON_INVALID_ARGUMENT,
                           sdk::text("row %d of the overlay, which has %d rows", overlay, int(call.in(1).rows)));
        read_row(call.in(1), overlay, row);
      } else {
        const int32_t token = read_id(call.in(0), r, 0);
        if (token < 0 || token >= table.rows)
          throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("token %d in row %d; the vocabulary has %lld", token,
                                                             int(r), static_cast<long long>(table.rows)));
        decode_rows(table, token, 1, row);
        for (int64_t c = 0; c < cols; ++c) row[c] = float(row[c] * scale);
      }
      write_row(call.out(0), r, row);
    }
  }
};

class Norm final : public OpKernel {
  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_norm_attr>();
    const int64_t cols = call.out(0).cols, group = attr.group ? attr.group : cols;
    const float* w = call.n_weight() ? call.decoded(0) : nullptr;
    float* x = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x);
      for (int64_t begin = 0; begin < cols; begin += group) {
        double squares = 0;
        for (int64_t c = 0; c < group; ++c) squares += double(x[begin + c]) * x[begin + c];
        if (attr.kind == TENON_NORM_RMS) squares /= double(group);
        const double root = std::sqrt(squares + attr.eps);
        for (int64_t c = 0; c < group; ++c) x[begin + c] = float(x[begin + c] / root * (w ? double(w[c]) : 1.0));
      }
      write_row(call.out(0), r, x);
    }
  }
};

// Position stream of pair i, interleaved over three streams.
int rope_stream(const uint32_t* sections, int64_t i) {
  if (i % 3 == 1 && i < 3 * int64_t(sections[1])) return 1;
  if (i % 3 == 2 && i < 3 * int64_t(sections[2])) return 2;
  return 0;
}

class Rope final : public OpKernel {
  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_rope_attr>();
    const float* inv_freq = call.decoded(0);
    const int64_t cols = call.out(0).cols, pairs = attr.n_rot / 2;
    float* x = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x);
      for (int64_t i = 0; i < pairs; ++i) {
        const int stream = rope_stream(attr.sections, i);
        const float position = float(entry(call.step().position, stream * int64_t(call.step().max_rows) + r));
        const float angle = position * inv_freq[i];  // rounded to f32: what models were trained with
        const double sine = std::sin(double(angle)) * attr.magnitude, cosine = std::cos(double(angle)) * attr.magnitude;
        const int64_t first = attr.style == TENON_ROPE_HALF ? i : 2 * i;
        const int64_t second = attr.style == TENON_ROPE_HALF ? i + pairs : 2 * i + 1;
        for (int64_t head = 0; head < cols; head += attr.head_dim) {
          const double a = x[head + first], b = x[head + second];
          x[head + first] = float(a * cosine - b * sine);
          x[head + second] = float(a * sine + b * cosine);
        }
      }
      write_row(call.out(0), r, x);
    }
  }
};

class SelectRows final : public OpKernel {
  void run(Call& call) const override {
    float* row = call.take(call.out(0).cols);
    const uint32_t n = live(call.step().n_outputs), rows = live(call.step().n_rows);
    for (uint32_t j = 0; j < n; ++j) {
      const int32_t from = entry(call.step().out_row, j);
      if (from < 0 || uint32_t(from) >= rows)
        throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("output row %u shows row %d of %u", j, from, rows));
      read_row(call.in(0), from, row);
      write_row(call.out(0), j, row);
    }
  }
};

class LogitsTail final : public OpKernel {
  void run(Call& call) const override {
    const int64_t cols = call.out(0).cols;
    const double cap = call.has_attr() ? call.attr<tenon_scale_attr>().factor : 0.0;
    const int64_t n_never = call.n_weight() ? count(call.weight(0)) : 0;
    const float* never = n_never ? call.decoded(0) : nullptr;  // ids below 2^24 are exact in f32
    float* x = call.take(cols);
    for (int64_t r = 0; r < call.rows(); ++r) {
      read_row(call.in(0), r, x);
      bool finite = true;
      for (int64_t c = 0; c < cols; ++c) {
        finite = finite && std::isfinite(x[c]);
        if (cap > 0) x[c] = float(cap * std::tanh(x[c] / cap));
      }
      for (int64_t i = 0; i < n_never; ++i)
        if (never[i] >= 0 && never[i] < float(cols)) x[int64_t(never[i])] = -std::numeric_limits<float>::infinity();
      if (call.step().status) sdk::at<uint32_t>(call.step().status)[r] = finite ? 0u : 1u;
      write_row(call.out(0), r, x);
    }
  }
};

}  // namespace

void register_rows(sdk::Registrar& registrar) {
  add_kernel<Embed>(registrar, "embed");
  add_kernel<Norm>(registrar, "norm");
  add_kernel<Rope>(registrar, "rope");
  add_kernel<SelectRows>(registrar, "select_rows");
  add_kernel<LogitsTail>(registrar, "logits_tail");
}

}  // namespace tenon::reference
