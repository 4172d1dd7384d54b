// recurrent_chunk.hpp: the gated delta rule of a prompt, 64 rows at a time, as matrix products (Yang, Kautz,
// Hatamizadeh: "Gated Delta Networks", section 3.3).
//
// Inside a chunk let G be the running sum of g, D_ij = e^(G_i − G_j) for j ≤ i, and S the state before the chunk. Then
//   X = (I + strictly lower(β K Kᵀ ⊙ D))⁻¹ β (V − e^G ⊙ K S)      by forward substitution
//   O = e^G ⊙ Q S + lower(Q Kᵀ ⊙ D) X
//   S ← e^(G_last) S + (e^(G_last − G) ⊙ K)ᵀ X
// Chunks begin at cache positions that are multiples of 64, so a prompt that is cut there gives equal bits however it
// is cut. Every product element is one chain in ascending order.
#pragma once

#include "recurrent_delta.hpp"
#include "simd/product.hpp"
#include "simd/transpose.hpp"
#include "simd/vec_math.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int64_t kChunk = TENON_PAGE_TOKENS;
constexpr int64_t kSolveRows = 8;

// Exponents below this one count as none: the factor is below 1e-26 beside numbers that are about 1, and products with
// it would be subnormal, which costs a hundred times the time of a product.
constexpr float kForgotten = -60.0f;
TENON_INLINE float decayed(double exponent) { return exponent < kForgotten ? 0.0f : float(__builtin_exp(exponent)); }

// Buffers of one worker; rows of a chunk are padded with zeros to a multiple of 16.
struct ChunkBuffers {
  TENON_INLINE ChunkBuffers(const DeltaPlan* plan, float* p) {
    const int64_t dk = plan->key_dim, dv = plan->value_dim;
    const auto take = [&p](int64_t n) {
      float* at = p;
      p += n;
      return at;
    };
    sum = reinterpret_cast<double*>(take(2 * kChunk));
    beta = take(kChunk), growth = take(kChunk), rest = take(kChunk);
    kq = take(2 * kChunk * dk), k_columns = take(kChunk * dk), k_rest = take(kChunk * dk);
    scores = take(2 * kChunk * kChunk), solve = take(kChunk * kChunk), weights = take(kChunk * kChunk);
    recalled = take(2 * kChunk * dv), x = take(kChunk * dv);
  }
  double* sum;                  // G
  float *beta, *growth, *rest;  // β, e^G, e^(G_last − G)
  float* kq;                    // K above, scale × Q below: [2 × 64][dk]
  float *k_columns, *k_rest;    // Kᵀ [dk][64], and with its columns × rest
  float* scores;                // K Kᵀ above, Q Kᵀ below, lower triangles
  float *solve, *weights;       // −β K Kᵀ ⊙ D strictly lower; Q Kᵀ ⊙ D lower
  float *recalled, *x;          // K S above, Q S below: [2 × 64][dv]; X [64][dv]
};

// What all value heads of a key head share: K, Q, Kᵀ, K Kᵀ, Q Kᵀ.
TENON_INLINE void load_keys(const DeltaPlan* plan, const tenon_args* args, int64_t row0, int64_t rows, int64_t padded,
                            int64_t kh, const ChunkBuffers& at) {
  const int64_t dk = plan->key_dim;
  float* q_rows = at.kq + kChunk * dk;
  for (int64_t i = 0; i < padded; ++i) {
    const float* k = i < rows ? f32_at(&args->in[1], row0 + i, kh * dk) : nullptr;
    const float* q = i < rows ? f32_at(&args->in[0], row0 + i, kh * dk) : nullptr;
    for (int64_t c = 0; c < dk; c += kLanes) {
      store(at.kq + i * dk + c, k ? load(k + c) : zero());
      store(q_rows + i * dk + c, q ? load(q + c) * splat(plan->scale) : zero());
    }
  }
  for (int64_t i = 0; i < padded; i += kLanes)
    for (int64_t c = 0; c < dk; c += kLanes) transpose16(at.kq + i * dk + c, dk, at.k_columns + c * kChunk + i, kChunk);
  // Only vectors that reach the lower triangle.
  const Steps steps = {dk, kChunk, kLanes, kChunk};
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t i = 0; i < padded; i += kLanes)
      multiply<Init::kZero>(kLanes, i / kLanes + 1, dk, at.kq + (half * kChunk + i) * dk, at.k_columns,
                            at.scores + (half * kChunk + i) * kChunk, steps);
}

// The triangles of one value head from its decays.
TENON_INLINE void weigh_scores(int64_t rows, int64_t padded, const ChunkBuffers& at) {
  float difference[kChunk];
  for (int64_t i = 0; i < padded; ++i) {
    float *solve = at.solve + i * kChunk, *weights = at.weights + i * kChunk;
    if (i >= rows) {
      memset(solve, 0, size_t(padded) * 4), memset(weights, 0, size_t(padded) * 4);
      continue;
    }
    const float *kk = at.scores + i * kChunk, *qk = at.scores + (kChunk + i) * kChunk;
    for (int64_t j = 0; j <= i; ++j) difference[j] = float(at.sum[i] - at.sum[j]);
    const F minus_beta = splat(-at.beta[i]);
    for (int64_t j = 0; j < padded; j += kLanes) {
      const int64_t live = larger(0, smaller(kLanes, i + 1 - j));
      if (live == 0) {
        store(solve + j, zero()), store(weights + j, zero());
        continue;
      }
      // Masked before the exponential: above the diagonal the difference is positive.
      const F exponent = load_first(difference + j, live);
      const F d = select(less(exponent, splat(kForgotten)), zero(), exp(exponent));
      store(weights + j, select(first(live), load(qk + j) * d, zero()));
      store(solve + j, select(first(larger(0, smaller(kLanes, i - j))), load(kk + j) * d * minus_beta, zero()));
    }
  }
}

// X ← (I − solve)⁻¹ X.
TENON_INLINE void substitute(int64_t padded, int64_t dv, const float* solve, float* x) {
  for (int64_t i = 0; i < padded; i += kSolveRows) {
    if (i > 0)
      multiply<Init::kAdd>(kSolveRows, dv / kLanes, i, solve + i * kChunk, x, x + i * dv, {kChunk, dv, kLanes, dv});
    for (int64_t c = 0; c < dv; c += kLanes) {
      F row[kSolveRows];
#pragma GCC unroll 8
      for (int r = 0; r < kSolveRows; ++r) {
        row[r] = load(x + (i + r) * dv + c);
#pragma GCC unroll 8
        for (int j = 0; j < r; ++j) row[r] = fma(splat(solve[(i + r) * kChunk + i + j]), row[j], row[r]);
        store(x + (i + r) * dv + c, row[r]);
      }
    }
  }
}

TENON_INLINE bool all_finite(const float* x, int64_t n) {
  F sum = zero();  // of zeros, unless a number is not finite
  for (int64_t i = 0; i < n; i += kLanes) sum = fma(load(x + i), zero(), sum);
  float lanes[kLanes];
  store(lanes, sum);
  for (int lane = 0; lane < kLanes; ++lane)
    if (lanes[lane] != 0) return false;
  return true;
}

// O ← growth ⊙ O + lower(weights) X, sixteen rows at a time: what lies above the diagonal is 0 and adds nothing, as
// long as X is finite. A row that is not must not reach those before it (P19).
TENON_INLINE void weigh_values(int64_t padded, int64_t dv, const ChunkBuffers& at, float* o) {
  const Steps steps = {kChunk, dv, kLanes, dv};
  for (int64_t i = 0; i < padded; i += kLanes) {
    const bool by_row = !all_finite(at.x + i * dv, kLanes * dv);
    for (int64_t r = i; r < i + kLanes; r += by_row ? 1 : kLanes)
      multiply<Init::kScaled>(by_row ? 1 : kLanes, dv / kLanes, by_row ? r + 1 : i + kLanes, at.weights + r * kChunk,
                              at.x, o + r * dv, steps, at.growth + r);
  }
}

// One chunk of one value head.
TENON_INLINE void chunk_head(const DeltaPlan* plan, const tenon_args* args, const float* rates, int64_t row0,
                             int64_t rows, int64_t padded, int64_t h, float* state, const ChunkBuffers& at) {
  const int64_t dk = plan->key_dim, dv = plan->value_dim, vectors = dv / kLanes;
  double total = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const float a = *f32_at(&args->in[4], row0 + i, h);
    total += log_decay(rates[h], rates[plan->value_heads + h], a);
    at.sum[i] = total, at.growth[i] = decayed(total);
    at.beta[i] = write_strength(*f32_at(&args->in[3], row0 + i, h));
  }
  for (int64_t i = 0; i < rows; ++i) at.rest[i] = decayed(total - at.sum[i]);
  for (int64_t i = rows; i < padded; ++i) at.beta[i] = at.growth[i] = at.rest[i] = 0;
  weigh_scores(rows, padded, at);

  const Steps by_state = {dk, dv, kLanes, dv};
  multiply<Init::kZero>(padded, vectors, dk, at.kq, state, at.recalled, by_state);
  multiply<Init::kZero>(padded, vectors, dk, at.kq + kChunk * dk, state, at.recalled + kChunk * dv, by_state);
  for (int64_t i = 0; i < padded; ++i) {
    const float* v = i < rows ? f32_at(&args->in[2], row0 + i, h * dv) : nullptr;
    for (int64_t c = 0; c < dv; c += kLanes) {
      const F known = splat(at.growth[i]) * load(at.recalled + i * dv + c);
      store(at.x + i * dv + c, v ? splat(at.beta[i]) * (load(v + c) - known) : zero());
    }
  }
  substitute(padded, dv, at.solve, at.x);

  float* o = at.recalled + kChunk * dv;
  weigh_values(padded, dv, at, o);
  for (int64_t i = 0; i < rows; ++i) memcpy(f32_at(&args->out[0], row0 + i, h * dv), o + i * dv, size_t(dv) * 4);

  float carry[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) carry[lane] = at.growth[rows - 1];
  for (int64_t c = 0; c < dk; ++c)
    for (int64_t i = 0; i < padded; i += kLanes)
      store(at.k_rest + c * kChunk + i, load(at.k_columns + c * kChunk + i) * load(at.rest + i));
  for (int64_t c = 0; c < dk; c += kLanes)
    multiply<Init::kScaled>(kLanes, vectors, padded, at.k_rest + c * kChunk, at.x, state + c * dv,
                            {kChunk, dv, kLanes, dv}, carry);
}

tenon_status delta_chunked(const DeltaPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  float* rates = static_cast<float*>(exec->scratch);
  const tenon_status status = read_rates(plan, args, rates);
  if (status != TENON_OK) return status;
  float* scratch = rates + 2 * conv_stride(plan->value_heads);
  const ChunkBuffers buffers(plan, scratch);
  const Span heads = share_of(plan->value_heads, exec);
  const tenon_store* s = &args->store[0];
  const uint32_t seqs = *pointer_at<uint32_t>(args->step->n_seqs, 0);
  for (uint32_t seq = 0; seq < seqs; ++seq) {
    Transaction t;
    if (!read_transaction(args->step, s, seq, &t) || t.rows > plan->max_rows) return TENON_INVALID_ARGUMENT;
    if (t.tape >= 0) {  // no prompt, but the rules hold for it as well
      delta_rows(plan, args, t, rates, heads, scratch);
      continue;
    }
    Transaction replay = t;
    replay.rows = 0;
    if (t.accepted > 0) delta_rows(plan, args, replay, rates, heads, scratch);
    float* slot = pointer_at<float>(s->base + tenon_addr(t.slot * s->page_bytes), 0);
    for (int64_t done = 0; done < t.rows;) {
      const int64_t row0 = t.row0 + done, index = pointer_at<int32_t>(args->step->index, 0)[row0];
      const int64_t rows = smaller(kChunk - index % kChunk, t.rows - done);
      const int64_t padded = (rows + kLanes - 1) / kLanes * kLanes;
      for (int64_t kh = 0; kh < plan->key_heads; ++kh) {
        bool loaded = false;
        for (int64_t h = heads.begin; h < heads.end; ++h) {
          if (key_head(plan, h) != kh) continue;
          if (!loaded) load_keys(plan, args, row0, rows, padded, kh, buffers);
          loaded = true;
          chunk_head(plan, args, rates, row0, rows, padded, h, slot + h * plan->key_dim * plan->value_dim, buffers);
        }
      }
      done += rows;
    }
  }
  return TENON_OK;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
