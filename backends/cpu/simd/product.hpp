// product.hpp: the small matrix product of the CPU's float kernels, for linear, experts and both halves of attention.
//
//   C[m][16 j + lane] = init + Σ_k A[m][k] × B(k, j)[lane]
//
// A's numbers are broadcast, B's vectors are loaded, a lane is an output column. Each output is one chain of fma in
// ascending k, whatever the number of rows or columns that are computed beside it: this is what makes rows exact.
// For sources built once an instruction set.
#pragma once

#include "vec.hpp"
#include "views.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
TENON_INLINE F load_b(const float* p) { return load(p); }
TENON_INLINE F load_b(const Half* p) { return load_f16(&p->bits); }
TENON_INLINE F load_b(const Brain* p) { return load_bf16(&p->bits); }

enum class Init { kZero, kAdd, kScaled };  // 0; C; C × alpha[m]

// Register tiles: rows × vectors of accumulators, one vector of B for each column, one broadcast. A single row takes
// more vectors, so that enough chains are in flight.
#if defined(TENON_ISA_avx512)
constexpr int kTileRows = 6, kTileVectors = 4, kWideVectors = 8;
#elif defined(TENON_ISA_avx2)
constexpr int kTileRows = 6, kTileVectors = 1, kWideVectors = 4;
#else
constexpr int kTileRows = 2, kTileVectors = 1, kWideVectors = 2;
#endif

// Where operands lie, in elements: A's rows, B's k and vectors, C's rows (its vectors follow one another).
struct Steps {
  int64_t a_row, b_k, b_vector, c_row;
};

template <int kRows, int kVectors, Init kInit, typename B>
__attribute__((noinline)) void tile(const float* a, const B* b, float* c, int64_t k, Steps s, const float* alpha) {
  F acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kInit == Init::kZero) {
        acc[r][j] = zero();
      } else {
        acc[r][j] = load(c + r * s.c_row + j * kLanes);
        if constexpr (kInit == Init::kScaled) acc[r][j] = acc[r][j] * splat(alpha[r]);
      }
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    F vector[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) vector[j] = load_b(b + i * s.b_k + j * s.b_vector);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F x = splat(a[r * s.a_row + i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[r][j] = fma(x, vector[j], acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) store(c + r * s.c_row + j * kLanes, acc[r][j]);
  }
}

template <int kVectors, Init kInit, typename B>
TENON_INLINE void tile_of(int64_t rows, const float* a, const B* b, float* c, int64_t k, const Steps& s,
                          const float* alpha) {
  switch (rows) {
    case 1:
      return tile<1, kVectors, kInit>(a, b, c, k, s, alpha);
    case 2:
      return tile<2, kVectors, kInit>(a, b, c, k, s, alpha);
#if defined(TENON_ISA_avx512) || defined(TENON_ISA_avx2)
    case 3:
      return tile<3, kVectors, kInit>(a, b, c, k, s, alpha);
    case 4:
      return tile<4, kVectors, kInit>(a, b, c, k, s, alpha);
    case 5:
      return tile<5, kVectors, kInit>(a, b, c, k, s, alpha);
    default:
      return tile<6, kVectors, kInit>(a, b, c, k, s, alpha);
#endif
  }
}

// rows × vectors outputs. `alpha` holds a factor a row for kScaled.
template <Init kInit, typename B>
TENON_INLINE void multiply(int64_t rows, int64_t vectors, int64_t k, const float* a, const B* b, float* c,
                           const Steps& s, const float* alpha = nullptr) {
  int64_t j = 0;
  if (rows == 1) {
    for (; j + kWideVectors <= vectors; j += kWideVectors)
      tile<1, kWideVectors, kInit>(a, b + j * s.b_vector, c + j * kLanes, k, s, alpha);
  }
  while (j < vectors) {
    const int64_t n = smaller(vectors - j, kTileVectors);
    // Equal shares of the rows instead of full tiles and a short rest.
    const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r = rows * t / tiles, m = rows * (t + 1) / tiles - r;
      const float *ar = a + r * s.a_row, *factor = alpha ? alpha + r : nullptr;
      const B* bj = b + j * s.b_vector;
      float* cr = c + r * s.c_row + j * kLanes;
      switch (n) {
#if defined(TENON_ISA_avx512)
        case 2:
          tile_of<2, kInit>(m, ar, bj, cr, k, s, factor);
          break;
        case 3:
          tile_of<3, kInit>(m, ar, bj, cr, k, s, factor);
          break;
        case 4:
          tile_of<4, kInit>(m, ar, bj, cr, k, s, factor);
          break;
#endif
        default:
          tile_of<1, kInit>(m, ar, bj, cr, k, s, factor);
          break;
      }
    }
    j += n;
  }
}

// Columns of K that a pass over many rows takes at once: the panel of B then stays in the second-level cache. The chain
// of each output goes on through memory, so the cut does not show in the result.
constexpr int64_t kSlab = 512;

// Blocks [block, block + vectors) of sixteen outputs for all rows; `panel` is the first block's begin.
template <typename B>
void multiply_blocks(const tenon_view* x, const B* panel, int64_t rows, int64_t vectors, float* y, int64_t y_row) {
  const int64_t k = x->cols, slab = rows > kTileRows ? kSlab : k;
  for (int64_t c = 0; c < k;) {
    const int64_t n = smaller(smaller(k - c, slab), run_of(x, c));
    const Steps steps = {x->row_bytes / 4, kLanes, k * kLanes, y_row};
    if (c == 0) {
      multiply<Init::kZero>(rows, vectors, n, f32_at(x, 0, c), panel + c * kLanes, y, steps);
    } else {
      multiply<Init::kAdd>(rows, vectors, n, f32_at(x, 0, c), panel + c * kLanes, y, steps);
    }
    c += n;
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
