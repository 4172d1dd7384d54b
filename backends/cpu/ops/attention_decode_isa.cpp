// attention, decode phase: few rows, each over all its keys. Heads are shared among the workers; a worker's heads of
// one K/V head go over the keys together.
#include "attention.hpp"
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int kKeys = 8;    // keys whose products are computed together
constexpr int kPairs = 64;  // (row, head) pairs that share a walk over the keys

// Sums of eight vectors, each by the tree of sum().
TENON_INLINE void sums8(const F* x, float* out) {
#if defined(TENON_ISA_avx512)
  __m512 h[4], q[2];
  for (int i = 0; i < 4; ++i) {
    h[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x[2 * i].p[0], x[2 * i + 1].p[0], 0x44),
                         _mm512_shuffle_f32x4(x[2 * i].p[0], x[2 * i + 1].p[0], 0xee));
  }
  for (int i = 0; i < 2; ++i) {
    q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(h[2 * i], h[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(h[2 * i], h[2 * i + 1], 0xdd));
  }
  const __m512 two = _mm512_add_ps(_mm512_shuffle_ps(q[0], q[1], 0x44), _mm512_shuffle_ps(q[0], q[1], 0xee));
  const __m512 one = _mm512_add_ps(_mm512_shuffle_ps(two, two, 0x88), _mm512_shuffle_ps(two, two, 0xdd));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, one)));
#else
  for (int i = 0; i < kKeys; ++i) out[i] = sum(x[i]);
#endif
}

// Products of q with eight keys that follow one another.
template <typename B>
TENON_INLINE void dot8(const float* q, const B* keys, int64_t dim, float* out) {
  F acc[kKeys];
  for (int i = 0; i < kKeys; ++i) acc[i] = zero();
  for (int64_t d = 0; d < dim; d += kLanes) {
    const F x = load(q + d);
#pragma GCC unroll 8
    for (int i = 0; i < kKeys; ++i) acc[i] = fma(x, load_b(keys + i * dim + d), acc[i]);
  }
  sums8(acc, out);
}

// One worker's walk: rows [row, row + n_rows) of one sequence, heads [head, head + n_heads) of one K/V head.
struct Walk {
  const OpPlan* plan;
  const tenon_args* args;
  int64_t row, n_rows, head, n_heads, seq, kv_head;
  float *sums, *score, *keys, *values;  // [pairs][dim_v]; [pairs][64]; [8][dim]; [64][value_cols]
  const float* query[kPairs];
  float alpha[kPairs];
  Running run[kPairs];
  Sight sight[kPairs];  // of the rows

  const tenon_attention_attr* attr() const { return &plan->attention; }
};

// `tile`: the page's keys as f32, where they are needed as values too; else null.
TENON_INLINE tenon_status score_tile(Walk* w, const uint8_t* k, const float* tile, int64_t begin, int64_t end) {
  const int64_t dim = w->attr()->head_dim, pairs = w->n_rows * w->n_heads;
  const int64_t step = row_bytes_of(w->plan->dtype[0], dim);
  for (int64_t i = begin / kKeys * kKeys; i < end; i += kKeys) {
    const uint8_t* from = k + i * step;
    if (!tile && pairs == 1 && w->plan->dtype_id[0] == TENON_DTYPE_F16) {
      dot8(w->query[0], reinterpret_cast<const Half*>(from), dim, w->score + i);
      continue;
    }
    const float* keys = tile ? tile + i * dim : as_f32(w->plan, 0, from, kKeys, dim, w->keys);
    if (!keys) return TENON_INTERNAL;
    for (int64_t p = 0; p < pairs; ++p) dot8(w->query[p], keys, dim, w->score + p * kTile + i);
  }
  return TENON_OK;
}

// Adds the weighted values of keys [lo, hi) for the heads of row r: only keys that the row sees are touched, so nothing
// that lies elsewhere can reach it.
template <typename B>
TENON_INLINE void add_values(Walk* w, int64_t r, const B* v, int64_t lo, int64_t hi) {
  const int64_t dim = w->attr()->head_dim_v, step = w->plan->value_cols, pair = r * w->n_heads;
  multiply<Init::kScaled>(w->n_heads, dim / kLanes, hi - lo, w->score + pair * kTile + lo, v + lo * step,
                          w->sums + pair * dim, {kTile, step, kLanes, dim}, w->alpha + pair);
}

tenon_status walk_keys(Walk* w) {
  const tenon_attention_attr* attr = w->attr();
  const int64_t dim = attr->head_dim, dim_v = attr->head_dim_v, pairs = w->n_rows * w->n_heads;
  const tenon_store* pages = &w->args->store[0];
  for (int64_t p = 0; p < pairs; ++p) {
    w->query[p] = f32_at(&w->args->in[0], w->row + p / w->n_heads, (w->head + p % w->n_heads) * dim);
    w->run[p] = {-__builtin_inff(), 0.0f};
  }
  for (int64_t i = 0; i < pairs * dim_v; ++i) w->sums[i] = 0.0f;
  const Sight all = sights_of(attr, w->args->step, w->row, w->n_rows, w->sight);
  for (int64_t tile = all.first / kTile; tile <= all.last / kTile; ++tile) {
    const uint8_t* page = page_of(pages, w->seq, tile);
    if (!page) return TENON_INVALID_ARGUMENT;
    const int64_t base = tile * kTile, begin = larger(0, all.first - base), end = smaller(kTile, all.last - base + 1);
    const uint8_t* k = page + w->kv_head * kTile * row_bytes_of(w->plan->dtype[0], dim);
    const uint8_t* v = values_of(w->plan, pages, page, k, w->kv_head);
    // Halves are turned into f32 as they are multiplied; latent rows once, as many heads read them twice.
    const bool is_half = w->plan->dtype_id[1] == TENON_DTYPE_F16 || w->plan->dtype_id[1] == TENON_DTYPE_BF16;
    const float* values = nullptr;
    if (!is_half || w->plan->is_latent) {
      values = as_f32(w->plan, 1, v, kTile, w->plan->value_cols, w->values);
      if (!values) return TENON_INTERNAL;
    }
    if (const tenon_status status = score_tile(w, k, w->plan->is_latent ? values : nullptr, begin, end)) return status;
    for (int64_t r = 0; r < w->n_rows; ++r) {
      const int64_t lo = larger(0, w->sight[r].first - base), hi = smaller(kTile, w->sight[r].last - base + 1);
      if (hi <= lo) continue;
      for (int64_t h = 0; h < w->n_heads; ++h) {
        const int64_t p = r * w->n_heads + h;
        w->alpha[p] = soften(attr, w->score + p * kTile, 0, kTile / kLanes, lo, hi, &w->run[p]);
      }
      switch (values ? uint32_t{TENON_DTYPE_F32} : w->plan->dtype_id[1]) {
        case TENON_DTYPE_F16:
          add_values(w, r, reinterpret_cast<const Half*>(v), lo, hi);
          break;
        case TENON_DTYPE_BF16:
          add_values(w, r, reinterpret_cast<const Brain*>(v), lo, hi);
          break;
        default:
          add_values(w, r, values, lo, hi);
          break;
      }
    }
  }
  for (int64_t p = 0; p < pairs; ++p) {
    float* out = f32_at(&w->args->out[0], w->row + p / w->n_heads, (w->head + p % w->n_heads) * dim_v);
    const F total = splat(w->run[p].total);
    // Adding 0 makes every zero positive: a masked tile may or may not have turned a negative one.
    for (int64_t d = 0; d < dim_v; d += kLanes) store(out + d, load(w->sums + p * dim_v + d) / total + zero());
  }
  return TENON_OK;
}

}  // namespace

tenon_status attention_decode(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_attention_attr* attr = &plan->attention;
  const tenon_step* step = args->step;
  const int64_t n_seqs = *pointer_at<uint32_t>(step->n_seqs, 0), group = attr->heads / attr->kv_heads;
  const int32_t* row_start = pointer_at<int32_t>(step->row_start, 0);
  const Span heads = heads_of(plan, attr->heads, exec);
  Walk w;
  w.plan = plan, w.args = args;
  w.sums = static_cast<float*>(exec->scratch);
  w.score = w.sums + kPairs * int64_t(attr->head_dim_v);
  w.keys = w.score + kPairs * kTile;
  w.values = w.keys + kKeys * int64_t(attr->head_dim);
  for (int64_t s = 0; s < n_seqs; ++s) {
    for (int64_t head = heads.begin; head < heads.end;) {
      w.kv_head = head / group, w.head = head;
      w.n_heads = smaller(smaller(heads.end, (w.kv_head + 1) * group) - head, kPairs);
      const int64_t rows = larger(1, kPairs / w.n_heads);
      for (int64_t r = row_start[s]; r < row_start[s + 1]; r += rows) {
        w.row = r, w.n_rows = smaller(rows, row_start[s + 1] - r);
        w.seq = *pointer_at<int32_t>(step->seq, r);
        if (const tenon_status status = walk_keys(&w)) return status;
      }
      head += w.n_heads;
    }
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
