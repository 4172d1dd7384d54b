// attention, prefill phase: blocks of queries over tiles of 64 keys. A unit of work is some heads of one K/V head and
// some rows of one sequence; units are claimed, the ones that see most keys first.
#include "../simd/transpose.hpp"
#include "attention.hpp"
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int64_t kQueries = 64;  // (row, head) pairs of a unit: A's rows in both products

// Buffers of a worker, in numbers; attention_prefill_scratch() in attention.cpp counts them.
struct Unit {
  const OpPlan* plan;
  const tenon_args* args;
  int64_t row, n_rows, head, n_heads, seq, kv_head;
  float *query, *keys, *values, *score, *sums;  // [64][dim]; [dim][64]; a tile; [64][64]; [64][dim_v]
  float alpha[kQueries];
  Running run[kQueries];
  Sight sight[kQueries];  // of the rows
};

// Keys of vectors [v0, v1) of a tile, turned so that a lane is a key. `values` serves as buffer.
TENON_INLINE tenon_status turn_keys(Unit* u, const uint8_t* k, int64_t v0, int64_t v1) {
  const int64_t dim = u->plan->attention.head_dim, step = row_bytes_of(u->plan->dtype[0], dim);
  for (int64_t v = v0; v < v1; ++v) {
    const float* rows = as_f32(u->plan, 0, k + v * kLanes * step, kLanes, dim, u->values);
    if (!rows) return TENON_INTERNAL;
    for (int64_t d = 0; d < dim; d += kLanes) transpose16(rows + d, dim, u->keys + d * kTile + v * kLanes, kTile);
  }
  return TENON_OK;
}

// Scores of all pairs for vectors [v0, v1) of the tile. The dimension goes in slabs that stay in the first-level cache;
// the chain of each score goes on through memory.
TENON_INLINE void score_tile(Unit* u, int64_t v0, int64_t v1) {
  constexpr int64_t kSlab = 128;
  const int64_t dim = u->plan->attention.head_dim, pairs = u->n_rows * u->n_heads;
  const Steps steps = {dim, kTile, kLanes, kTile};
  for (int64_t d = 0; d < dim; d += kSlab) {
    const int64_t n = smaller(kSlab, dim - d);
    const float* keys = u->keys + d * kTile + v0 * kLanes;
    float* score = u->score + v0 * kLanes;
    if (d == 0) {
      multiply<Init::kZero>(pairs, v1 - v0, n, u->query + d, keys, score, steps);
    } else {
      multiply<Init::kAdd>(pairs, v1 - v0, n, u->query + d, keys, score, steps);
    }
  }
}

TENON_INLINE bool all_finite(const float* p, int64_t n) {
  F fault = zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const F x = load(p + i);
    fault = fault + (x - x);
  }
  return sum(fault) == 0.0f;
}

// Adds the weighted values of keys [begin, end). Weights of keys that a row does not see are 0, which adds nothing as
// long as the values are finite; if any is not, each row takes only the keys that it sees.
TENON_INLINE tenon_status add_values(Unit* u, const uint8_t* v, int64_t base, int64_t begin, int64_t end) {
  const tenon_attention_attr* attr = &u->plan->attention;
  const int64_t dim = attr->head_dim_v, cols = u->plan->value_cols, pairs = u->n_rows * u->n_heads;
  const int64_t step = row_bytes_of(u->plan->dtype[1], cols);
  const float* values = as_f32(u->plan, 1, v + begin * step, end - begin, cols, u->values);
  if (!values) return TENON_INTERNAL;
  const Steps steps = {kTile, cols, kLanes, dim};
  if (all_finite(values, (end - begin) * cols)) {
    multiply<Init::kScaled>(pairs, dim / kLanes, end - begin, u->score + begin, values, u->sums, steps, u->alpha);
    return TENON_OK;
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const Sight sight = u->sight[p / u->n_heads];
    const int64_t lo = larger(begin, sight.first - base), hi = smaller(end, sight.last - base + 1);
    multiply<Init::kScaled>(1, dim / kLanes, larger(0, hi - lo), u->score + p * kTile + lo, values + (lo - begin) * cols,
                            u->sums + p * dim, steps, u->alpha + p);
  }
  return TENON_OK;
}

tenon_status run_unit(Unit* u) {
  const tenon_attention_attr* attr = &u->plan->attention;
  const int64_t dim = attr->head_dim, dim_v = attr->head_dim_v, pairs = u->n_rows * u->n_heads;
  const tenon_store* pages = &u->args->store[0];
  for (int64_t p = 0; p < pairs; ++p) {
    const float* q = f32_at(&u->args->in[0], u->row + p / u->n_heads, (u->head + p % u->n_heads) * dim);
    memcpy(u->query + p * dim, q, size_t(dim) * sizeof(float));
    u->run[p] = {-__builtin_inff(), 0.0f};
  }
  for (int64_t i = 0; i < pairs * dim_v; i += kLanes) store(u->sums + i, zero());
  const Sight all = sights_of(attr, u->args->step, u->row, u->n_rows, u->sight);
  for (int64_t tile = all.first / kTile; tile <= all.last / kTile; ++tile) {
    const uint8_t* page = page_of(pages, u->seq, tile);
    if (!page) return TENON_INVALID_ARGUMENT;
    const int64_t base = tile * kTile, begin = larger(0, all.first - base), end = smaller(kTile, all.last - base + 1);
    const int64_t v0 = begin / kLanes, v1 = (end + kLanes - 1) / kLanes;
    const uint8_t* k = page + u->kv_head * kTile * row_bytes_of(u->plan->dtype[0], dim);
    const uint8_t* v = values_of(u->plan, pages, page, k, u->kv_head);
    if (const tenon_status status = turn_keys(u, k, v0, v1)) return status;
    score_tile(u, v0, v1);
    for (int64_t p = 0; p < pairs; ++p) {
      const Sight sight = u->sight[p / u->n_heads];
      const int64_t lo = larger(0, sight.first - base), hi = smaller(kTile, sight.last - base + 1);
      u->alpha[p] = soften(attr, u->score + p * kTile, v0, v1, lo, hi, &u->run[p]);
    }
    if (const tenon_status status = add_values(u, v, base, begin, end)) return status;
  }
  for (int64_t p = 0; p < pairs; ++p) {
    float* out = f32_at(&u->args->out[0], u->row + p / u->n_heads, (u->head + p % u->n_heads) * dim_v);
    const F total = splat(u->run[p].total);
    // Adding 0 makes every zero positive: a masked tile may or may not have turned a negative one.
    for (int64_t d = 0; d < dim_v; d += kLanes) store(out + d, load(u->sums + p * dim_v + d) / total + zero());
  }
  return TENON_OK;
}

TENON_INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

tenon_status attention_prefill(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_attention_attr* attr = &plan->attention;
  const tenon_step* step = args->step;
  const int64_t n_seqs = *pointer_at<uint32_t>(step->n_seqs, 0), group = attr->heads / attr->kv_heads;
  const int32_t* row_start = pointer_at<int32_t>(step->row_start, 0);
  const int64_t dim = attr->head_dim;
  // Heads of a unit: the largest divisor of the group up to 4, so that keys are turned once for several heads.
  int64_t n_heads = smaller(4, group);
  while (group % n_heads) --n_heads;
  // Rows of a unit: as many as fit, fewer while that leaves workers without one. Results do not depend on it.
  const int64_t head_units = attr->heads / n_heads;
  int64_t rows = kQueries / n_heads, units = 0;
  for (;; rows /= 2) {
    units = 0;
    for (int64_t s = 0; s < n_seqs; ++s) units += divide_up(row_start[s + 1] - row_start[s], rows);
    units *= head_units;
    if (units >= 2 * int64_t(exec->n_workers) || rows <= 8) break;
  }
  Unit u;
  u.plan = plan, u.args = args, u.n_heads = n_heads;
  u.query = static_cast<float*>(exec->scratch);
  u.keys = u.query + kQueries * dim;
  u.values = u.keys + kTile * dim;
  u.score = u.values + kTile * larger(dim, plan->value_cols);
  u.sums = u.score + kQueries * kTile;
  for (int64_t i = exec->claim(exec->counter, 1); i < units; i = exec->claim(exec->counter, 1)) {
    int64_t block = (units - 1 - i) / head_units, s = 0;
    for (; block >= divide_up(row_start[s + 1] - row_start[s], rows); ++s)
      block -= divide_up(row_start[s + 1] - row_start[s], rows);
    u.row = row_start[s] + block * rows, u.n_rows = smaller(rows, row_start[s + 1] - u.row);
    u.head = i % head_units * n_heads, u.kv_head = u.head / group;
    u.seq = *pointer_at<int32_t>(step->seq, u.row);
    if (const tenon_status status = run_unit(&u)) return status;
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
