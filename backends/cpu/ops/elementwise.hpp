// elementwise.hpp: loops over columns of values that may be strided views. For sources built once an instruction set.
#pragma once

#include "../simd/vec_math.hpp"
#include "op_plan.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// y = f(x) for columns [c0, c1) of row r.
template <typename Body>
TENON_INLINE void map1(const tenon_view* y, const tenon_view* x, int64_t r, int64_t c0, int64_t c1, Body body) {
  while (c0 < c1) {
    const int64_t n = smaller(c1 - c0, smaller(run_of(x, c0), run_of(y, c0)));
    const float* px = f32_at(x, r, c0);
    float* py = f32_at(y, r, c0);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(py + i, body(load(px + i)));
    if (i < n) store_first(py + i, body(load_first(px + i, n - i)), n - i);
    c0 += n;
  }
}

// y = f(a, b) for columns [c0, c1) of row r.
template <typename Body>
TENON_INLINE void map2(const tenon_view* y, const tenon_view* a, const tenon_view* b, int64_t r, int64_t c0, int64_t c1,
                       Body body) {
  while (c0 < c1) {
    const int64_t n = smaller(smaller(c1 - c0, run_of(y, c0)), smaller(run_of(a, c0), run_of(b, c0)));
    const float *pa = f32_at(a, r, c0), *pb = f32_at(b, r, c0);
    float* py = f32_at(y, r, c0);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(py + i, body(load(pa + i), load(pb + i)));
    if (i < n) store_first(py + i, body(load_first(pa + i, n - i), load_first(pb + i, n - i)), n - i);
    c0 += n;
  }
}

// Sixteen entries of a float weight, from entry i on; zeros past `n`.
TENON_INLINE F weight_at(const tenon_weight* w, int64_t i, int64_t n) {
  switch (w->dtype) {
    case TENON_DTYPE_F16:
      return load_f16_first(pointer_at<uint16_t>(w->plane[0], i), n);
    case TENON_DTYPE_BF16:
      return load_bf16_first(pointer_at<uint16_t>(w->plane[0], i), n);
    default:
      return load_first(pointer_at<float>(w->plane[0], i), n);
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
