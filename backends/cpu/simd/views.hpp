// views.hpp: a worker's share, and elements of values that may be strided views.
//
// Included by sources that are built once an instruction set: inline functions without code of the standard library.
#pragma once

#include <stdint.h>
#include <tenon/abi.h>

namespace tenon::cpu {

// Workers' shares.
struct Span {
  int64_t begin, end;
};
static inline Span share_of(int64_t n, const tenon_exec* exec) {
  return {TENON_SHARE(n, exec->worker, exec->n_workers), TENON_SHARE(n, exec->worker + 1, exec->n_workers)};
}

// Address of element (r, c) of a value with `item` bytes an element, and how many columns follow without a gap.
static inline uint8_t* element(const tenon_view* view, int64_t r, int64_t c, int64_t item) {
  const tenon_addr row = view->data + tenon_addr(r * view->row_bytes);
  if (view->groups <= 1) return reinterpret_cast<uint8_t*>(row + tenon_addr(c * item));
  const int64_t width = view->cols / view->groups;
  return reinterpret_cast<uint8_t*>(row + tenon_addr(c / width * view->group_bytes + c % width * item));
}
static inline float* f32_at(const tenon_view* view, int64_t r, int64_t c) {
  return reinterpret_cast<float*>(element(view, r, c, 4));
}
static inline int64_t run_of(const tenon_view* view, int64_t c) {
  if (view->groups <= 1) return view->cols - c;
  const int64_t width = view->cols / view->groups;
  return width - c % width;
}
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename T>
static inline T* pointer_at(tenon_addr address, int64_t index) {
  return reinterpret_cast<T*>(address) + index;
}

}  // namespace tenon::cpu
