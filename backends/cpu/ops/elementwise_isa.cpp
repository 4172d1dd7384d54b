// Ops that treat columns one by one: glu, gate, add, mul, scale, softcap.
#include "../simd/glu.hpp"
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

template <typename Body>
TENON_INLINE tenon_status unary(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec, Body body) {
  const Span rows = rows_of(plan, args, exec), cols = cols_of(plan, args->out[0].cols, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) map1(&args->out[0], &args->in[0], r, cols.begin, cols.end, body);
  return TENON_OK;
}
template <typename Body>
TENON_INLINE tenon_status binary(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec, Body body) {
  const Span rows = rows_of(plan, args, exec), cols = cols_of(plan, args->out[0].cols, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    map2(&args->out[0], &args->in[0], &args->in[1], r, cols.begin, cols.end, body);
  return TENON_OK;
}

// y = f(x, w) with a weight of one entry a column.
template <typename Body>
TENON_INLINE tenon_status with_weight(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec, Body body) {
  const tenon_view *x = &args->in[0], *y = &args->out[0];
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = 0; c < y->cols;) {
      const int64_t n = smaller(kLanes, smaller(run_of(x, c), run_of(y, c)));
      store_first(f32_at(y, r, c), body(load_first(f32_at(x, r, c), n), weight_at(&args->weight[0], c, n)), n);
      c += n;
    }
  }
  return TENON_OK;
}

}  // namespace

tenon_status add(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  if (args->n_in == 2) return binary(plan, args, exec, [](F a, F b) { return a + b; });
  return with_weight(plan, args, exec, [](F a, F w) { return a + w; });
}

tenon_status mul(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  if (args->n_in == 2) return binary(plan, args, exec, [](F a, F b) { return a * b; });
  const tenon_weight* w = &args->weight[0];
  if (w->rows * w->cols == 1) {
    float one[16];
    store(one, weight_at(w, 0, 1));
    const F factor = splat(one[0]);
    return unary(plan, args, exec, [factor](F a) { return a * factor; });
  }
  return with_weight(plan, args, exec, [](F a, F b) { return a * b; });
}

tenon_status scale(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const F factor = splat(plan->scale.factor);
  return unary(plan, args, exec, [factor](F a) { return a * factor; });
}

TENON_FLATTEN tenon_status softcap(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const F cap = splat(plan->scale.factor);
  return unary(plan, args, exec, [cap](F a) { return cap * tanh(a / cap); });
}

TENON_FLATTEN tenon_status glu(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  with_glu(plan->glu.activation, plan->glu.limit, plan->glu.alpha, [=](auto act) { binary(plan, args, exec, act); });
  return TENON_OK;
}

TENON_FLATTEN tenon_status gate(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const bool use_silu = plan->gate.activation == TENON_ACT_SILU;
  const auto act = [use_silu](F g) { return use_silu ? silu(g) : sigmoid(g); };
  const tenon_view *x = &args->in[0], *g = &args->in[1], *y = &args->out[0];
  const int64_t group = plan->gate.group ? plan->gate.group : x->cols;
  if (group == 1) return binary(plan, args, exec, [act](F a, F b) { return a * act(b); });
  const Span rows = rows_of(plan, args, exec), cols = cols_of(plan, y->cols, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = cols.begin; c < cols.end;) {
      const int64_t unit = c / group, end = smaller(cols.end, (unit + 1) * group);
      float one[16];
      store(one, act(load_first(f32_at(g, r, unit), 1)));
      const F factor = splat(one[0]);
      map1(y, x, r, c, end, [factor](F a) { return a * factor; });
      c = end;
    }
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
