// rope: turns pairs of columns by an angle that depends on the row's position.
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// Position stream of pair i: interleaved over three streams, as docs/ops.md says.
TENON_INLINE int stream_of(const uint32_t* sections, int64_t i) {
  if (i % 3 == 1 && i < 3 * int64_t(sections[1])) return 1;
  if (i % 3 == 2 && i < 3 * int64_t(sections[2])) return 2;
  return 0;
}

// Sines and cosines of a row's angles. The angle is f32(position) × inv_freq, rounded to f32.
TENON_INLINE void angles_of(const tenon_rope_attr* attr, const tenon_weight* w, const tenon_step* step, int64_t r,
                            float* sine, float* cosine) {
  const float* inv_freq = pointer_at<float>(w->plane[0], 0);
  const int32_t* position = pointer_at<int32_t>(step->position, r);
  const int64_t pairs = attr->n_rot / 2;
  const bool plain = !attr->sections[0] && !attr->sections[1] && !attr->sections[2] && !attr->sections[3];
  const float first = float(position[0]);
  const F magnitude = splat(attr->magnitude);
  for (int64_t i = 0; i < pairs; i += kLanes) {
    float angle[16], s[16], c[16];
    const int64_t n = smaller(kLanes, pairs - i);
    store(angle, load_first(inv_freq + i, n) * splat(first));
    if (!plain) {
      for (int64_t j = 0; j < n; ++j)
        angle[j] = float(position[stream_of(attr->sections, i + j) * int64_t(step->max_rows)]) * inv_freq[i + j];
    }
    sincos(angle, s, c);
    store_first(sine + i, load(s) * magnitude, n);
    store_first(cosine + i, load(c) * magnitude, n);
  }
}

TENON_INLINE void turn_half(float* y, const float* x, int64_t pairs, const float* sine, const float* cosine) {
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t n = pairs - i;
    const F a = load_first(x + i, n), b = load_first(x + pairs + i, n);
    const F s = load_first(sine + i, n), c = load_first(cosine + i, n);
    store_first(y + i, fma(a, c, negative(b * s)), n);
    store_first(y + pairs + i, fma(a, s, b * c), n);
  }
}

TENON_INLINE void turn_adjacent(float* y, const float* x, int64_t pairs, const float* sine, const float* cosine) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = fma1(a, cosine[i], -(b * sine[i]));
    y[2 * i + 1] = fma1(a, sine[i], b * cosine[i]);
  }
}

}  // namespace

tenon_status rope(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_rope_attr* attr = &plan->rope;
  const tenon_view *x = &args->in[0], *y = &args->out[0];
  const int64_t dim = attr->head_dim, pairs = attr->n_rot / 2;
  float* sine = static_cast<float*>(exec->scratch);
  float* cosine = sine + TENON_ALIGN64(pairs * 4) / 4;
  const Span rows = rows_of(plan, args, exec), heads = heads_of(plan, x->cols / dim, exec);
  if (heads.begin == heads.end) return TENON_OK;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    angles_of(attr, &args->weight[0], args->step, r, sine, cosine);
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      const float* from = f32_at(x, r, h * dim);
      float* to = f32_at(y, r, h * dim);
      if (attr->style == TENON_ROPE_HALF) {
        turn_half(to, from, pairs, sine, cosine);
      } else {
        turn_adjacent(to, from, pairs, sine, cosine);
      }
      if (to != from && dim > 2 * pairs)
        memcpy(to + 2 * pairs, from + 2 * pairs, size_t(dim - 2 * pairs) * sizeof(float));
    }
  }
  return TENON_OK;
}

}  // namespace tenon::cpu::TENON_ISA
