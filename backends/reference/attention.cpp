// Paged K/V and latent rows: kv_write, attention and latent_attention.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "op_kernel.hpp"

namespace tenon::reference {
namespace {

// Address of a head's K or V row in a page of the store's layout 0; a latent row is the K row of its one head.
tenon_addr cache_row(const tenon_store& store, const tenon_store_type& type, int32_t seq, int64_t position,
                     int64_t head, bool value) {
  const int32_t page = entry(store.table, int64_t(seq) * store.table_stride + position / TENON_PAGE_TOKENS);
  if (page < 0)
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     sdk::text("sequence %d has no page for position %lld", seq, static_cast<long long>(position)));
  const int64_t cols = (value ? type.cols_v : type.cols_k) / type.heads;
  const int64_t row_bytes = stored_bytes(value ? type.dtype_v : type.dtype_k, cols);
  return store.base + uint64_t(page * store.page_bytes + (value ? store.value_offset : 0) +
                               (head * TENON_PAGE_TOKENS + position % TENON_PAGE_TOKENS) * row_bytes);
}

class KvWrite final : public OpKernel {
  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_kv_write_attr>();
    const tenon_store_type& type = call.store_type(0);
    const bool is_latent = type.kind == TENON_STORE_LATENT;
    float *k = call.take(call.in(0).cols), *v = is_latent ? nullptr : call.take(call.in(1).cols);
    const uint32_t rows = live(call.step().n_rows);
    for (uint32_t r = 0; r < rows; ++r) {
      read_row(call.in(0), r, k);
      if (!is_latent) read_row(call.in(1), r, v);
      const int32_t seq = entry(call.step().seq, r), position = entry(call.step().index, r);
      for (uint32_t h = 0; h < attr.kv_heads; ++h) {
        store_row(type.dtype_k, cache_row(call.store(0), type, seq, position, h, false), k + h * attr.head_dim,
                  attr.head_dim);
        if (is_latent) continue;
        store_row(type.dtype_v, cache_row(call.store(0), type, seq, position, h, true), v + h * attr.head_dim_v,
                  attr.head_dim_v);
      }
    }
  }
};

class Attention final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const auto& attr = node.attr<tenon_attention_attr>();
    const int64_t keys = request.max_context + request.max_rows;
    return uint64_t(floats(node.in()[0].cols) + floats(node.out()[0].cols) + floats(attr.head_dim) +
                    floats(attr.head_dim_v) + doubles(attr.head_dim_v) + doubles(keys) + TENON_ALIGN64(keys * 4));
  }

  // Positions that row r sees, ascending.
  static int64_t visible(const Call& call, const tenon_attention_attr& attr, uint32_t r, int32_t* positions) {
    const int64_t index = entry(call.step().index, r), capacity = call.facts().max_context + call.facts().max_rows;
    const int32_t seq = entry(call.step().seq, r);
    const int32_t span = attr.span_mask && call.step().span ? entry(call.step().span, r) : -1;
    const int32_t first = entry(call.step().row_start, seq), last = entry(call.step().row_start, seq + 1);
    const int64_t window_begin = attr.window > 0 && index - attr.window + 1 > 0 ? index - attr.window + 1 : 0;
    int64_t n = 0;
    const auto add = [&](int64_t p) {
      if (n == capacity)
        throw sdk::Error(TENON_CAPACITY,
                         sdk::text("row %u sees more than the planned %lld keys", r, static_cast<long long>(capacity)));
      positions[n++] = int32_t(p);
    };
    // Rows of the own span lie in this step; those before the window come first, those after the row last.
    for (int32_t s = first; span >= 0 && s < last; ++s)
      if (entry(call.step().span, s) == span && entry(call.step().index, s) < window_begin)
        add(entry(call.step().index, s));
    for (int64_t p = window_begin; p <= index; ++p) add(p);
    for (int32_t s = first; span >= 0 && s < last; ++s)
      if (entry(call.step().span, s) == span && entry(call.step().index, s) > index) add(entry(call.step().index, s));
    return n;
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_attention_attr>();
    const tenon_store_type& type = call.store_type(0);
    const int64_t dk = attr.head_dim, dv = attr.head_dim_v;
    const int64_t keys = call.facts().max_context + call.facts().max_rows;
    float *q = call.take(call.in(0).cols), *o = call.take(call.out(0).cols), *k = call.take(dk), *v = call.take(dv);
    auto *sum = call.take<double>(dv), *score = call.take<double>(keys);
    auto* positions = call.take<int32_t>(keys);
    const uint32_t rows = live(call.step().n_rows);
    for (uint32_t r = 0; r < rows; ++r) {
      read_row(call.in(0), r, q);
      const int32_t seq = entry(call.step().seq, r);
      const int64_t n = visible(call, attr, r, positions);
      for (uint32_t h = 0; h < attr.heads; ++h) {
        const int64_t kv_head = h / (attr.heads / attr.kv_heads);
        double top = -std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < n; ++i) {
          load_row(type.dtype_k, cache_row(call.store(0), type, seq, positions[i], kv_head, false), k, dk);
          double s = 0;
          for (int64_t c = 0; c < dk; ++c) s += double(q[h * dk + c]) * k[c];
          s *= attr.scale;
          if (attr.softcap > 0) s = attr.softcap * std::tanh(s / attr.softcap);
          score[i] = s;
          if (s > top) top = s;
        }
        double total = 0;
        for (int64_t c = 0; c < dv; ++c) sum[c] = 0;
        for (int64_t i = 0; i < n; ++i) {
          const double weight = std::exp(score[i] - top);
          total += weight;
          load_row(type.dtype_v, cache_row(call.store(0), type, seq, positions[i], kv_head, true), v, dv);
          for (int64_t c = 0; c < dv; ++c) sum[c] += weight * v[c];
        }
        for (int64_t c = 0; c < dv; ++c) o[h * dv + c] = float(sum[c] / total);
      }
      write_row(call.out(0), r, o);
    }
  }
};

// Every head against the same rows, whose first `rank` columns are summed.
class LatentAttention final : public OpKernel {
  uint64_t workspace(const sdk::Node& node, const sdk::PlanRequest& request) const override {
    const auto& attr = node.attr<tenon_latent_attention_attr>();
    return uint64_t(floats(node.in()[0].cols) + floats(node.out()[0].cols) + floats(attr.rank + attr.rope_dim) +
                    doubles(attr.rank) + doubles(request.max_context + request.max_rows));
  }

  void run(Call& call) const override {
    const auto& attr = call.attr<tenon_latent_attention_attr>();
    const tenon_store_type& type = call.store_type(0);
    const int64_t rank = attr.rank, cols = rank + attr.rope_dim;
    const int64_t capacity = call.facts().max_context + call.facts().max_rows;
    float *q = call.take(call.in(0).cols), *o = call.take(call.out(0).cols), *row = call.take(cols);
    auto *sum = call.take<double>(rank), *score = call.take<double>(capacity);
    const uint32_t rows = live(call.step().n_rows);
    for (uint32_t r = 0; r < rows; ++r) {
      read_row(call.in(0), r, q);
      const int32_t seq = entry(call.step().seq, r), index = entry(call.step().index, r);
      if (index >= capacity)
        throw sdk::Error(TENON_CAPACITY,
                         sdk::text("row %u sees more than the planned %lld keys", r, static_cast<long long>(capacity)));
      for (uint32_t h = 0; h < attr.heads; ++h) {
        double top = -std::numeric_limits<double>::infinity();
        for (int32_t p = 0; p <= index; ++p) {
          load_row(type.dtype_k, cache_row(call.store(0), type, seq, p, 0, false), row, cols);
          double s = 0;
          for (int64_t c = 0; c < cols; ++c) s += double(q[h * cols + c]) * row[c];
          score[p] = s * attr.scale;
          if (score[p] > top) top = score[p];
        }
        double total = 0;
        for (int64_t c = 0; c < rank; ++c) sum[c] = 0;
        for (int32_t p = 0; p <= index; ++p) {
          const double weight = std::exp(score[p] - top);
          total += weight;
          load_row(type.dtype_k, cache_row(call.store(0), type, seq, p, 0, false), row, cols);
          for (int64_t c = 0; c < rank; ++c) sum[c] += weight * row[c];
        }
        for (int64_t c = 0; c < rank; ++c) o[h * rank + c] = float(sum[c] / total);
      }
      write_row(call.out(0), r, o);
    }
  }
};

}  // namespace

void register_attention(sdk::Registrar& registrar) {
  add_kernel<KvWrite>(registrar, "kv_write");
  add_kernel<Attention>(registrar, "attention");
  add_kernel<LatentAttention>(registrar, "latent_attention");
}

}  // namespace tenon::reference
