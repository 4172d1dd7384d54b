// norm: root mean square or L2, over the whole row or groups of columns.
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// Σ x² of columns [c0, c1): two running vectors, then one fixed tree.
TENON_INLINE float squares(const tenon_view* x, int64_t r, int64_t c0, int64_t c1) {
  F even = zero(), odd = zero();
  while (c0 < c1) {
    const int64_t n = smaller(c1 - c0, run_of(x, c0));
    const float* p = f32_at(x, r, c0);
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const F a = load(p + i), b = load(p + i + kLanes);
      even = fma(a, a, even), odd = fma(b, b, odd);
    }
    for (; i < n; i += kLanes) {
      const F a = load_first(p + i, n - i);
      even = fma(a, a, even);
    }
    c0 += n;
  }
  return sum(even + odd);
}

TENON_INLINE void scale_columns(const tenon_view* y, const tenon_view* x, const tenon_weight* w, int64_t r, int64_t c0,
                                int64_t c1, float factor) {
  const F f = splat(factor);
  if (!w) return map1(y, x, r, c0, c1, [f](F a) { return a * f; });
  for (int64_t c = c0; c < c1;) {
    const int64_t n = smaller(c1 - c, smaller(run_of(x, c), run_of(y, c)));
    const float* px = f32_at(x, r, c);
    float* py = f32_at(y, r, c);
    if (w->dtype == TENON_DTYPE_F32) {
      const float* pw = pointer_at<float>(w->plane[0], c - c0);
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) store(py + i, load(px + i) * f * load(pw + i));
      if (i < n) store_first(py + i, load_first(px + i, n - i) * f * load_first(pw + i, n - i), n - i);
    } else {
      for (int64_t i = 0; i < n; i += kLanes)
        store_first(py + i, load_first(px + i, n - i) * f * weight_at(w, c - c0 + i, n - i), n - i);
    }
    c += n;
  }
}

}  // namespace

tenon_status norm(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view *x = &args->in[0], *y = &args->out[0];
  const tenon_weight* w = args->n_weight ? &args->weight[0] : nullptr;
  const int64_t group = plan->norm.group ? plan->norm.group : x->cols;
  const bool rms = plan->norm.kind == TENON_NORM_RMS;
  const Span rows = rows_of(plan, args, exec), groups = heads_of(plan, x->cols / group, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t g = groups.begin; g < groups.end; ++g) {
      const int64_t begin = g * group, end = begin + group;
      float total = squares(x, r, begin, end);
      if (rms) total /= float(group);
      scale_columns(y, x, w, r, begin, end, 1.0f / __builtin_sqrtf(total + plan->norm.eps));
    }
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
