// recurrent_conv.hpp: the causal convolution of a channel with itself, vectorised over channels.
//
// A channel's rows form one list: the store's current base, accepted tape rows, earlier rows of the open transaction,
// the step's rows. Every output is one chain over the taps in ascending order, so it is the same in every grouping of
// rows.
#pragma once

#include "ops/op_plan.hpp"
#include "recurrent.hpp"
#include "simd/vec_math.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int64_t kConvBlock = 128;  // channels whose weights and last rows stay in the nearest cache

// The list of rows of one sequence, seen through a block of channels.
struct ConvRows {
  const tenon_view* x;
  const float *base, *tapes;
  int64_t channels, keep, half, row0;
  int64_t accepted, replay, earlier, tape;  // counts and tape slots

  int64_t first_new() const { return keep + accepted + earlier; }
  // Channels c … c + n of list entry i, copied to `copy` where a strided view does not hold them in one piece.
  TENON_INLINE const float* at(int64_t i, int64_t c, int64_t n, float* copy) const {
    if (i < keep) return base + (half * keep + i) * channels + c;
    i -= keep;
    if (i < accepted) return tapes + (replay * TENON_DECODE_MAX_TOKENS + i) * channels + c;
    i -= accepted;
    if (i < earlier) return tapes + (tape * TENON_DECODE_MAX_TOKENS + i) * channels + c;
    i -= earlier;
    if (run_of(x, c) >= n) return f32_at(x, row0 + i, c);
    for (int64_t done = 0; done < n;) {
      const int64_t run = smaller(n - done, run_of(x, c + done));
      memcpy(copy + done, f32_at(x, row0 + i, c + done), size_t(run) * 4);
      done += run;
    }
    return copy;
  }
};

template <bool kSilu>
TENON_INLINE F conv_vector(const float* w, int64_t w_step, const float* const* rows, int64_t taps, int64_t c,
                           int64_t n) {
  F acc = load(w + c) * load_first(rows[0] + c, n);
  for (int64_t j = 1; j < taps; ++j) acc = fma(load(w + j * w_step + c), load_first(rows[j] + c, n), acc);
  return kSilu ? silu(acc) : acc;
}

// y for the rows of one sequence and the channels [c0, c0 + n), n ≤ kConvBlock.
template <bool kSilu>
TENON_INLINE void conv_block(const ConvRows& list, const float* w, int64_t w_step, int64_t taps, int64_t rows,
                             int64_t c0, int64_t n, const tenon_view* y, float* scratch) {
  const float** window = reinterpret_cast<const float**>(scratch);  // the last `taps` rows, oldest first
  float* copies = scratch + 2 * taps;
  const int64_t begin = list.first_new() - (taps - 1);
  for (int64_t j = 0; j + 1 < taps; ++j) window[j] = list.at(begin + j, c0, n, copies + j * kConvBlock);
  for (int64_t r = 0; r < rows; ++r) {
    // The copy of row r overwrites that of row r - taps.
    window[taps - 1] = list.at(begin + taps - 1 + r, c0, n, copies + (r + taps - 1) % taps * kConvBlock);
    float* out = f32_at(y, list.row0 + r, c0);
    int64_t c = 0;
    for (; c + kLanes <= n; c += kLanes) store(out + c, conv_vector<kSilu>(w + c0, w_step, window, taps, c, kLanes));
    if (c < n) store_first(out + c, conv_vector<kSilu>(w + c0, w_step, window, taps, c, n - c), n - c);
    for (int64_t j = 0; j + 1 < taps; ++j) window[j] = window[j + 1];
  }
}

tenon_status conv(const ConvPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const int64_t channels = plan->channels, taps = plan->taps, keep = taps - 1;
  const Span units = share_of((channels + kLanes - 1) / kLanes, exec);
  const int64_t begin = units.begin * kLanes, end = smaller(units.end * kLanes, channels);
  const tenon_store* s = &args->store[0];
  const float* w = pointer_at<float>(args->weight[0].plane[0], 0);
  float* scratch = static_cast<float*>(exec->scratch);
  const uint32_t seqs = *pointer_at<uint32_t>(args->step->n_seqs, 0);
  for (uint32_t seq = 0; seq < seqs; ++seq) {
    Transaction t;
    if (!read_transaction(args->step, s, seq, &t)) return TENON_INVALID_ARGUMENT;
    float* base = pointer_at<float>(s->base + tenon_addr(t.slot * s->page_bytes), 0);
    float* tapes = pointer_at<float>(s->aux + tenon_addr(t.slot * s->aux_bytes), 0);
    const bool taped = t.tape >= 0;
    const ConvRows list = {&args->in[0], base,   tapes,      channels, keep,
                           t.half,       t.row0, t.accepted, t.replay, taped ? t.tape_start : 0,
                           t.tape};
    for (int64_t c = begin; c < end; c += kConvBlock) {
      const int64_t n = smaller(kConvBlock, end - c);
      if (plan->activation == TENON_ACT_SILU)
        conv_block<true>(list, w, conv_stride(channels), taps, t.rows, c, n, &args->out[0], scratch);
      else
        conv_block<false>(list, w, conv_stride(channels), taps, t.rows, c, n, &args->out[0], scratch);
      float* copy = scratch + 2 * taps;
      for (int64_t i = 0; taped && i < t.rows; ++i)
        memcpy(tapes + (t.tape * TENON_DECODE_MAX_TOKENS + t.tape_start + i) * channels + c,
               list.at(list.first_new() + i, c, n, copy), size_t(n) * 4);
      if (taped && t.accepted == 0) continue;
      const int64_t base_end = keep + t.accepted + (taped ? 0 : t.rows);
      for (int64_t i = 0; i < keep; ++i)
        memcpy(base + ((1 - t.half) * keep + i) * channels + c, list.at(base_end - keep + i, c, n, copy),
               size_t(n) * 4);
    }
  }
  return TENON_OK;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
