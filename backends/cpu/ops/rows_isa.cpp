// Ops that move or encode rows: embed, encode, concat, select_rows; and the logits' tail.
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

TENON_INLINE void copy_columns(const tenon_view* to, int64_t to_row, int64_t to_col, const tenon_view* from,
                               int64_t from_row, int64_t cols) {
  for (int64_t c = 0; c < cols;) {
    const int64_t n = smaller(cols - c, smaller(run_of(from, c), run_of(to, to_col + c)));
    memcpy(f32_at(to, to_row, to_col + c), f32_at(from, from_row, c), size_t(n) * sizeof(float));
    c += n;
  }
}

// A block of 32 columns that a view may scatter; answers where its f32 lie together.
TENON_INLINE const float* gather32(const tenon_view* x, int64_t r, int64_t c, float* buffer) {
  if (run_of(x, c) >= 32) return f32_at(x, r, c);
  for (int64_t i = 0; i < 32;) {
    const int64_t n = smaller(32 - i, run_of(x, c + i));
    memcpy(buffer + i, f32_at(x, r, c + i), size_t(n) * sizeof(float));
    i += n;
  }
  return buffer;
}

// One row of q8_32 as abi.h defines it. Every step is a correctly rounded f32 operation, so all variants agree.
TENON_INLINE void encode_q8_32(const tenon_view* x, int64_t r, int8_t* row) {
  const int64_t cols = x->cols;
  float* scales = reinterpret_cast<float*>(row + tenon_q8_32_scale_offset(cols));
  int16_t* sums = reinterpret_cast<int16_t*>(row + tenon_q8_32_sum_offset(cols));
  const F limit = splat(127.0f), lowest = splat(-127.0f);
  for (int64_t b = 0; b < cols / 32; ++b) {
    float buffer[32];
    const float* p = gather32(x, r, b * 32, buffer);
    const F low = load(p), high = load(p + kLanes);
    const float amax = largest(max2(abs1(low), abs1(high)));
    // NaN may hide from the maximum; x - x is 0 for finite x and NaN for all else.
    const float fault = sum((low - low) + (high - high));
    if (fault != 0.0f) {
      scales[b] = __builtin_nanf("");
      memset(row + b * 32, 0, 32);
      sums[2 * b] = sums[2 * b + 1] = 0;
      continue;
    }
    scales[b] = amax / 127.0f;
    const F inverse = splat(amax == 0.0f ? 0.0f : 127.0f / amax);
    // For an amax below 2^-121 the factor is inf and 0 × inf is NaN: max2 then gives its second operand.
    const F a = min2(max2(low * inverse, lowest), limit), c = min2(max2(high * inverse, lowest), limit);
    sums[2 * b] = int16_t(store_codes(row + b * 32, round1(a)));
    sums[2 * b + 1] = int16_t(store_codes(row + b * 32 + kLanes, round1(c)));
  }
}

TENON_INLINE void encode_half(const tenon_view* y, const tenon_view* x, int64_t r, bool f16) {
  for (int64_t c = 0; c < x->cols;) {
    const int64_t run = smaller(run_of(x, c), run_of(y, c));
    const float* px = f32_at(x, r, c);
    uint16_t* py = reinterpret_cast<uint16_t*>(element(y, r, c, 2));
    for (int64_t i = 0; i < run; i += kLanes) {
      const F value = load_first(px + i, run - i);
      if (f16) {
        store_f16_first(py + i, value, run - i);
      } else {
        store_bf16_first(py + i, value, run - i);
      }
    }
    c += run;
  }
}

}  // namespace

tenon_status encode(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view *x = &args->in[0], *y = &args->out[0];
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    switch (plan->encode.encoding) {
      case TENON_ENC_Q8_32:
        encode_q8_32(x, r, pointer_at<int8_t>(y->data, r * y->row_bytes));
        break;
      case TENON_ENC_F16:
        encode_half(y, x, r, true);
        break;
      case TENON_ENC_BF16:
        encode_half(y, x, r, false);
        break;
      default:
        copy_columns(y, r, 0, x, r, x->cols);
        break;
    }
  }
  return TENON_OK;
}

tenon_status concat(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    copy_columns(&args->out[0], r, 0, &args->in[0], r, args->in[0].cols);
    copy_columns(&args->out[0], r, args->in[0].cols, &args->in[1], r, args->in[1].cols);
  }
  return TENON_OK;
}

tenon_status select_rows(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const int32_t* source = pointer_at<int32_t>(args->step->out_row, 0);
  const int64_t limit = *pointer_at<uint32_t>(args->step->n_rows, 0);
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    if (source[r] < 0 || source[r] >= limit) return TENON_INVALID_ARGUMENT;
    copy_columns(&args->out[0], r, 0, &args->in[0], source[r], args->out[0].cols);
  }
  return TENON_OK;
}

tenon_status embed(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view* y = &args->out[0];
  const tenon_weight* table = &args->weight[0];
  const int32_t* overlay =
      args->n_in > 1 && args->step->overlay ? pointer_at<int32_t>(args->step->overlay, 0) : nullptr;
  const F factor = splat(plan->embed.scale);
  const int64_t cols = y->cols;
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    if (overlay && overlay[r] >= 0) {
      if (overlay[r] >= args->in[1].rows) return TENON_INVALID_ARGUMENT;
      copy_columns(y, r, 0, &args->in[1], overlay[r], cols);
      continue;
    }
    const int32_t token = *pointer_at<int32_t>(args->in[0].data + tenon_addr(r * args->in[0].row_bytes), 0);
    if (token < 0 || token >= table->rows) return TENON_INVALID_ARGUMENT;
    float* out = f32_at(y, r, 0);
    const tenon_addr source = table->plane[0] + tenon_addr(token * table->row_bytes);
    switch (table->dtype) {
      case TENON_DTYPE_F32:
      case TENON_DTYPE_F16:
      case TENON_DTYPE_BF16:
        for (int64_t c = 0; c < cols; c += kLanes) {
          const int64_t n = cols - c;
          const F value = table->dtype == TENON_DTYPE_F32   ? load_first(pointer_at<float>(source, c), n)
                          : table->dtype == TENON_DTYPE_F16 ? load_f16_first(pointer_at<uint16_t>(source, c), n)
                                                            : load_bf16_first(pointer_at<uint16_t>(source, c), n);
          store_first(out + c, value * factor, n);
        }
        break;
      default:
        if (const tenon_status status = plan->dtype[0]->decode(table, token, 1, out)) return status;
        for (int64_t c = 0; c < cols; c += kLanes)
          store_first(out + c, load_first(out + c, cols - c) * factor, cols - c);
    }
  }
  return TENON_OK;
}

// Each worker treats its columns; a row's fault is seen by whoever holds it, so the faults are joined after a barrier
// that stands behind the clearing.
TENON_FLATTEN tenon_status logits_tail(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view *x = &args->in[0], *y = &args->out[0];
  uint32_t* status = args->step->status ? pointer_at<uint32_t>(args->step->status, 0) : nullptr;
  if (status && exec->worker == 0) {
    for (int64_t r = 0; r < args->rows; ++r) __atomic_store_n(status + r, 0u, __ATOMIC_RELAXED);
  }
  if (status && exec->n_workers > 1) exec->barrier(exec->team);
  const float cap = plan->scale.factor;
  const F bound = splat(cap);
  const int64_t n_never = args->n_weight ? args->weight[0].rows * args->weight[0].cols : 0;
  const int32_t* never = n_never ? pointer_at<int32_t>(args->weight[0].plane[0], 0) : nullptr;
  const Span cols = cols_of(plan, y->cols, exec);
  for (int64_t r = 0; r < args->rows; ++r) {
    F fault = zero();
    F* const join = &fault;
    if (cap > 0) {
      map1(y, x, r, cols.begin, cols.end, [join, bound](F a) {
        *join = *join + (a - a);
        return bound * tanh(a / bound);
      });
    } else {
      map1(y, x, r, cols.begin, cols.end, [join](F a) {
        *join = *join + (a - a);
        return a;
      });
    }
    for (int64_t i = 0; i < n_never; ++i)
      if (never[i] >= cols.begin && never[i] < cols.end) *f32_at(y, r, never[i]) = -__builtin_inff();
    if (status && sum(fault) != 0.0f) __atomic_fetch_or(status + r, 1u, __ATOMIC_RELAXED);
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
