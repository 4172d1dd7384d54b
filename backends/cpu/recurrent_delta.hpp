// recurrent_delta.hpp: the gated delta rule row by row.
//
//   d = β (v − e^g Sᵀk);  S ← e^g S + k dᵀ;  o = scale × Sᵀq
//
// A column of S evolves by itself, so a head is walked in tiles of columns that stay in the nearest cache for all rows
// of a step. One function advances a tile by a row, whether the row comes from a tape or from the step, and whether the
// tile is the store's or a copy: taped and plain steps give equal bits.
#pragma once

#include "ops/op_plan.hpp"
#include "recurrent.hpp"
#include "simd/vec.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

#if defined(TENON_ISA_avx512)
constexpr int kDeltaVectors = 4;
#elif defined(TENON_ISA_avx2)
constexpr int kDeltaVectors = 2;
#else
constexpr int kDeltaVectors = 1;
#endif

// A row for one head. o is null when only the state counts.
struct DeltaRow {
  const float *q, *k, *v;
  float decay, beta, scale;
  float* o;
};

// Columns [0, 16 × kVectors) of `row` onto the tile S [dk] with `step` numbers from row to row.
template <int kVectors, bool kOutput>
TENON_INLINE void advance_tile(float* state, int64_t step, int64_t dk, const DeltaRow& row, int64_t column) {
  F even[kVectors], odd[kVectors], d[kVectors];
#pragma GCC unroll 4
  for (int f = 0; f < kVectors; ++f) even[f] = odd[f] = zero();
  for (int64_t i = 0; i < dk; i += 2) {
    const float* s = state + i * step;
    const F k0 = splat(row.k[i]), k1 = splat(row.k[i + 1]);
#pragma GCC unroll 4
    for (int f = 0; f < kVectors; ++f) {
      even[f] = fma(load(s + f * kLanes), k0, even[f]);
      odd[f] = fma(load(s + step + f * kLanes), k1, odd[f]);
    }
  }
  const F decay = splat(row.decay);
#pragma GCC unroll 4
  for (int f = 0; f < kVectors; ++f)
    d[f] = splat(row.beta) * (load(row.v + column + f * kLanes) - decay * (even[f] + odd[f]));
  F out[kVectors];
#pragma GCC unroll 4
  for (int f = 0; f < kVectors; ++f) out[f] = zero();
  for (int64_t i = 0; i < dk; ++i) {
    float* s = state + i * step;
    const F k = splat(row.k[i]);
#pragma GCC unroll 4
    for (int f = 0; f < kVectors; ++f) {
      const F next = fma(k, d[f], decay * load(s + f * kLanes));
      store(s + f * kLanes, next);
      if constexpr (kOutput) out[f] = fma(next, splat(row.q[i]), out[f]);
    }
  }
  if constexpr (kOutput) {
#pragma GCC unroll 4
    for (int f = 0; f < kVectors; ++f) store(row.o + column + f * kLanes, splat(row.scale) * out[f]);
  }
}

// e^(A softplus(a + dt)) without the exponential, and β.
TENON_INLINE double log_decay(float rate, float bias, float a) {
  const double x = double(a) + bias;
  return rate * (x > 20.0 ? x : __builtin_log1p(__builtin_exp(x)));
}
TENON_INLINE float write_strength(float b) { return float(1.0 / (1.0 + __builtin_exp(-double(b)))); }

TENON_INLINE int64_t key_head(const DeltaPlan* plan, int64_t h) {
  if (plan->head_map == TENON_HEAD_MAP_MOD) return h % plan->key_heads;
  return h / (plan->value_heads / plan->key_heads);
}
// The worker with this value head writes its key head's part of the tape.
TENON_INLINE bool first_of_key_head(const DeltaPlan* plan, int64_t h) {
  if (plan->head_map == TENON_HEAD_MAP_MOD) return h < plan->key_heads;
  return h % (plan->value_heads / plan->key_heads) == 0;
}

// Places in a tape row.
struct TapeRow {
  TENON_INLINE TapeRow(const DeltaPlan* plan)
      : v(plan->key_heads * plan->key_dim),
        decay(v + plan->value_heads * plan->value_dim),
        beta(decay + plan->value_heads),
        cols(beta + plan->value_heads) {}
  int64_t v, decay, beta, cols;
};

// A (rate) and dt (bias) of all heads, decoded into 2 × value_heads numbers.
TENON_INLINE tenon_status read_rates(const DeltaPlan* plan, const tenon_args* args, float* rates) {
  for (int i = 0; i < 2; ++i) {
    const tenon_weight* w = &args->weight[i];
    const tenon_status status = plan->dtype[i]->decode(w, 0, w->rows, rates + i * plan->value_heads);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

// One sequence and one head. `decay` and `beta` hold the new rows' numbers; `tile` is room for a copy.
struct DeltaHead {
  const DeltaPlan* plan;
  const tenon_args* args;
  Transaction t;
  int64_t h;
  float *state, *tapes;
  const float *decay, *beta;
  float* tile;

  TENON_INLINE DeltaRow taped(int64_t slot, int64_t i) const {
    const TapeRow at(plan);
    const float* row = tapes + (slot * TENON_DECODE_MAX_TOKENS + i) * at.cols;
    return {nullptr,
            row + key_head(plan, h) * plan->key_dim,
            row + at.v + h * plan->value_dim,
            row[at.decay + h],
            row[at.beta + h],
            0,
            nullptr};
  }
  TENON_INLINE DeltaRow fresh(int64_t i) const {
    const int64_t r = t.row0 + i, key = key_head(plan, h) * plan->key_dim, value = h * plan->value_dim;
    return {f32_at(&args->in[0], r, key),
            f32_at(&args->in[1], r, key),
            f32_at(&args->in[2], r, value),
            decay[i],
            beta[i],
            plan->scale,
            f32_at(&args->out[0], r, value)};
  }

  template <int kVectors>
  void walk(int64_t column) const {
    const int64_t dk = plan->key_dim, dv = plan->value_dim, width = kVectors * kLanes;
    float* home = state + column;
    const bool is_taped = t.tape >= 0;
    if (!is_taped && t.accepted + t.rows == 1) {  // the common step: nothing to keep, no copy
      if (t.rows == 1)
        advance_tile<kVectors, true>(home, dv, dk, fresh(0), column);
      else
        advance_tile<kVectors, false>(home, dv, dk, taped(t.replay, 0), column);
      return;
    }
    copy(tile, width, home, dv, dk, kVectors);
    for (int64_t i = 0; i < t.accepted; ++i) advance_tile<kVectors, false>(tile, width, dk, taped(t.replay, i), column);
    if (is_taped && t.accepted > 0) copy(home, dv, tile, width, dk, kVectors);
    for (int64_t i = 0; is_taped && i < t.tape_start; ++i)
      advance_tile<kVectors, false>(tile, width, dk, taped(t.tape, i), column);
    for (int64_t i = 0; i < t.rows; ++i) advance_tile<kVectors, true>(tile, width, dk, fresh(i), column);
    if (!is_taped) copy(home, dv, tile, width, dk, kVectors);
  }

  static TENON_INLINE void copy(float* to, int64_t to_step, const float* from, int64_t from_step, int64_t dk,
                                int vectors) {
    for (int64_t i = 0; i < dk; ++i)
      for (int f = 0; f < vectors; ++f) store(to + i * to_step + f * kLanes, load(from + i * from_step + f * kLanes));
  }

  void run() const {
    int64_t column = 0;
    for (; column + kDeltaVectors * kLanes <= plan->value_dim; column += kDeltaVectors * kLanes)
      walk<kDeltaVectors>(column);
    for (; column < plan->value_dim; column += kLanes) walk<1>(column);
  }

  void append_to_tape() const {
    const TapeRow at(plan);
    const int64_t key = key_head(plan, h) * plan->key_dim, value = h * plan->value_dim;
    for (int64_t i = 0; i < t.rows; ++i) {
      float* row = tapes + (t.tape * TENON_DECODE_MAX_TOKENS + t.tape_start + i) * at.cols;
      const DeltaRow from = fresh(i);
      if (first_of_key_head(plan, h)) memcpy(row + key, from.k, size_t(plan->key_dim) * 4);
      memcpy(row + at.v + value, from.v, size_t(plan->value_dim) * 4);
      row[at.decay + h] = from.decay, row[at.beta + h] = from.beta;
    }
  }
};

// One sequence for the heads [begin, end). Scratch: tile, decays and betas.
TENON_INLINE void delta_rows(const DeltaPlan* plan, const tenon_args* args, const Transaction& t, const float* rates,
                             Span heads, float* scratch) {
  const tenon_store* s = &args->store[0];
  float* slot = pointer_at<float>(s->base + tenon_addr(t.slot * s->page_bytes), 0);
  float* tapes = pointer_at<float>(s->aux + tenon_addr(t.slot * s->aux_bytes), 0);
  float* tile = scratch;
  float* decay = tile + plan->key_dim * kDeltaVectors * kLanes;
  float* beta = decay + plan->max_rows;
  for (int64_t h = heads.begin; h < heads.end; ++h) {
    for (int64_t i = 0; i < t.rows; ++i) {
      const float b = *f32_at(&args->in[3], t.row0 + i, h), a = *f32_at(&args->in[4], t.row0 + i, h);
      decay[i] = float(__builtin_exp(log_decay(rates[h], rates[plan->value_heads + h], a)));
      beta[i] = write_strength(b);
    }
    const DeltaHead head = {plan, args, t, h, slot + h * plan->key_dim * plan->value_dim, tapes, decay, beta, tile};
    head.run();
    if (t.tape >= 0) head.append_to_tape();
  }
}

tenon_status delta_sequential(const DeltaPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  float* rates = static_cast<float*>(exec->scratch);
  const tenon_status status = read_rates(plan, args, rates);
  if (status != TENON_OK) return status;
  float* scratch = rates + 2 * conv_stride(plan->value_heads);
  const Span heads = share_of(plan->value_heads, exec);
  const uint32_t seqs = *pointer_at<uint32_t>(args->step->n_seqs, 0);
  for (uint32_t seq = 0; seq < seqs; ++seq) {
    Transaction t;
    if (!read_transaction(args->step, &args->store[0], seq, &t)) return TENON_INVALID_ARGUMENT;
    if (t.rows > plan->max_rows) return TENON_INVALID_ARGUMENT;
    delta_rows(plan, args, t, rates, heads, scratch);
  }
  return TENON_OK;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
