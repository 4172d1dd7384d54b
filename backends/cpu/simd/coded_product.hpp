// coded_product.hpp: the product of f32 rows with weights that are codes times scales. For sources built once an
// instruction set.
//
//   y[r, n] = factor[n] × 256 × Σ_g scale[n, g] × (Σ_k∈g x[r, k] × code[n, k])
//
// Definition of the fold, equal for every number of rows, tile and worker: a group's sum is one chain of fma in
// ascending k from 0; the groups' sums are one chain of fma in ascending g from 0; then both factors in turn. A codec
// without scales has one group. Codes and scales may be 2^8 too small together, which makes the decoding cheap.
//
// A codec is a small object that knows the packed form:
//   kScaled        whether there are scales
//   kStep, kStepBytes   columns and bytes of a word, which holds columns one behind the other if there is a rest
//   kRest               whether a group may end with less than a word
//   cols, group    columns of a row, and columns under one scale
//   panel_bytes()
//   codes(panel, c)        where column c's word begins; words of a group follow each other
//   Word load(const uint8_t*), F value<j>(Word)   column j of a word
//   F scale(panel, g), F factor(panel)
#pragma once

#include "coded.hpp"
#include "expert_ffn.hpp"
#include "product.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// Rows of the largest tile that decodes codes in registers, and up to how many rows that is done: for more it is
// cheaper to write the decoded numbers down (measured with FP8 and NVFP4).
#if defined(TENON_ISA_avx512)
constexpr int kDirectTile = 6, kDirectRows = 24;
#elif defined(TENON_ISA_avx2)
constexpr int kDirectTile = 3, kDirectRows = 9;
#else
constexpr int kDirectTile = 2, kDirectRows = 4;
#endif

// Columns j … end − 1 of a word.
template <typename Codec, int j, int end>
TENON_INLINE void decode_columns(const typename Codec::Word& word, float* out) {
  if constexpr (j < end) {
    store(out + j * kLanes, Codec::template value<j>(word));
    decode_columns<Codec, j + 1, end>(word, out);
  }
}

template <typename Codec, int j, int end, int kRows, int kVectors>
TENON_INLINE void multiply_columns(F (&sum)[kRows][kVectors], const typename Codec::Word (&word)[kVectors],
                                   const float* x, int64_t x_row) {
  if constexpr (j < end) {
    F w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = Codec::template value<j>(word[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F one = splat(x[r * x_row + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(one, w[v], sum[r][v]);
    }
    multiply_columns<Codec, j + 1, end>(sum, word, x, x_row);
  }
}

TENON_INLINE F finished(F sum, F factor) { return (sum * splat(256.0f)) * factor; }

// How far ahead of use codes are asked for: the processor's own prefetch loses sight of several panels at once.
constexpr int64_t kCodedAhead = 1024;

// kRows × kVectors panels, codes decoded on the way. A word is a cache line.
template <typename Codec, int kRows, int kVectors>
__attribute__((noinline)) void direct_tile(const Codec& codec, const float* x, int64_t x_row, const uint8_t* panel,
                                           float* y, int64_t y_row) {
  const int64_t step = codec.panel_bytes();
  F sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = zero();
  }
  int64_t g = 0;
  for (int64_t c = 0; c < codec.cols; ++g) {
    F part[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) part[r][v] = zero();
    }
    const int64_t end = smaller(c + codec.group, codec.cols);
    const uint8_t* code = codec.codes(panel, c);
    typename Codec::Word word[kVectors];
    for (; c + Codec::kStep <= end; c += Codec::kStep, code += Codec::kStepBytes) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        word[v] = Codec::load(code + v * step);
        prefetch(code + v * step + kCodedAhead);
      }
      multiply_columns<Codec, 0, Codec::kStep>(part, word, x + c, x_row);
    }
    for (; Codec::kRest && c < end; ++c, code += Codec::kStepBytes / Codec::kStep) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) word[v] = Codec::load(code + v * step);
      multiply_columns<Codec, 0, 1>(part, word, x + c, x_row);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (Codec::kScaled) {
        const F scale = codec.scale(panel + v * step, g);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[r][v] = fma(part[r][v], scale, sum[r][v]);
      } else {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[r][v] = part[r][v];
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const F factor = codec.factor(panel + v * step);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store(y + r * y_row + v * kLanes, finished(sum[r][v], factor));
  }
}

template <typename Codec, int kRows, int kVectors>
TENON_INLINE void direct_tile_of(int64_t rows, const Codec& codec, const float* x, int64_t x_row, const uint8_t* panel,
                                 float* y, int64_t y_row) {
  if (rows == kRows) return direct_tile<Codec, kRows, kVectors>(codec, x, x_row, panel, y, y_row);
  if constexpr (kRows > 1) direct_tile_of<Codec, kRows - 1, kVectors>(rows, codec, x, x_row, panel, y, y_row);
}

// All rows with `kVectors` panels at a time, as long as there are so many; answers how many are done. Rows are cut
// into equal tiles of at most `kRows`.
template <typename Codec, int kRows, int kVectors>
TENON_INLINE int64_t direct_panels(const Codec& codec, const float* x, int64_t x_row, int64_t rows,
                                   const uint8_t* panel, int64_t done, int64_t vectors, float* y, int64_t y_row) {
  const int64_t tiles = (rows + kRows - 1) / kRows;
  for (; done + kVectors <= vectors; done += kVectors) {
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r = rows * t / tiles, m = rows * (t + 1) / tiles - r;
      direct_tile_of<Codec, kRows, kVectors>(m, codec, x + r * x_row, x_row, panel + done * codec.panel_bytes(),
                                             y + r * y_row + done * kLanes, y_row);
    }
  }
  return done;
}

// Panels together: enough chains for few rows, and no more than the registers hold.
template <typename Codec>
void direct_blocks(const Codec& codec, const float* x, int64_t x_row, int64_t rows, const uint8_t* panel,
                   int64_t vectors, float* y, int64_t y_row) {
  int64_t done = 0;
#if defined(TENON_ISA_avx512)
  if (rows <= 2) done = direct_panels<Codec, 2, 4>(codec, x, x_row, rows, panel, done, vectors, y, y_row);
  done = direct_panels<Codec, kDirectTile, 2>(codec, x, x_row, rows, panel, done, vectors, y, y_row);
#else
  if (rows == 1) done = direct_panels<Codec, 1, 2>(codec, x, x_row, rows, panel, done, vectors, y, y_row);
#endif
  direct_panels<Codec, kDirectTile, 1>(codec, x, x_row, rows, panel, done, vectors, y, y_row);
}

// Columns [c, end) of `vectors` panels as numbers [vectors][kCodedSlab][16], and their scales [groups][vectors][16].
template <typename Codec>
void decode_slab(const Codec& codec, const uint8_t* panel, int64_t c, int64_t end, int64_t vectors, float* numbers,
                 float* scales) {
  for (int64_t v = 0; v < vectors; ++v, panel += codec.panel_bytes(), numbers += kCodedSlab * kLanes) {
    float* out = numbers;
    for (int64_t i = c, group_end; i < end; i = group_end) {
      group_end = smaller(end, i + codec.group);
      const uint8_t* code = codec.codes(panel, i);
      if constexpr (Codec::kScaled)
        store(scales + ((i - c) / codec.group * vectors + v) * kLanes, codec.scale(panel, i / codec.group));
      int64_t k = i;
      for (; k + Codec::kStep <= group_end; k += Codec::kStep, code += Codec::kStepBytes, out += Codec::kStep * kLanes)
        decode_columns<Codec, 0, Codec::kStep>(Codec::load(code), out);
      for (; Codec::kRest && k < group_end; ++k, code += Codec::kStepBytes / Codec::kStep, out += kLanes)
        decode_columns<Codec, 0, 1>(Codec::load(code), out);
    }
  }
}

// C += Σ_g scale × (Σ x × numbers) for the columns of a slab.
template <int kRows, int kVectors>
__attribute__((noinline)) void scaled_tile(const float* x, int64_t x_row, const float* numbers, const float* scales,
                                           int64_t cols, int64_t group, float* c, int64_t c_row) {
  F sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(c + r * c_row + v * kLanes);
  }
  for (int64_t begin = 0; begin < cols; begin += group, scales += kVectors * kLanes) {
    F part[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) part[r][v] = zero();
    }
    const int64_t end = smaller(cols, begin + group);
    for (int64_t k = begin; k < end; ++k) {
      F w[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) w[v] = load(numbers + (v * kCodedSlab + k) * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F one = splat(x[r * x_row + k]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) part[r][v] = fma(one, w[v], part[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const F scale = load(scales + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][v] = fma(part[r][v], scale, sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(c + r * c_row + v * kLanes, sum[r][v]);
  }
}

template <int kVectors>
TENON_INLINE void scaled_tile_of(int64_t rows, const float* x, int64_t x_row, const float* numbers, const float* scales,
                                 int64_t cols, int64_t group, float* c, int64_t c_row) {
  switch (rows) {
    case 1:
      return scaled_tile<1, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
    case 2:
      return scaled_tile<2, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
#if defined(TENON_ISA_avx512) || defined(TENON_ISA_avx2)
    case 3:
      return scaled_tile<3, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
    case 4:
      return scaled_tile<4, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
    case 5:
      return scaled_tile<5, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
    default:
      return scaled_tile<6, kVectors>(x, x_row, numbers, scales, cols, group, c, c_row);
#endif
  }
}

template <int kVectors>
TENON_INLINE void scaled_rows(int64_t rows, const float* x, int64_t x_row, const float* numbers, const float* scales,
                              int64_t cols, int64_t group, float* c, int64_t c_row) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t r = rows * t / tiles, m = rows * (t + 1) / tiles - r;
    scaled_tile_of<kVectors>(m, x + r * x_row, x_row, numbers, scales, cols, group, c + r * c_row, c_row);
  }
}

// A slab of numbers with all rows. y holds what the columns before gave.
template <typename Codec>
void multiply_slab(const Codec& codec, const float* x, int64_t x_row, int64_t rows, int64_t cols, int64_t vectors,
                   const float* numbers, const float* scales, float* y, int64_t y_row) {
  if constexpr (!Codec::kScaled) {
    const Steps steps = {x_row, kLanes, kCodedSlab * kLanes, y_row};
    return multiply<Init::kAdd>(rows, vectors, cols, x, numbers, y, steps);
  } else {
    switch (vectors) {
#if defined(TENON_ISA_avx512)
      case 2:
        return scaled_rows<2>(rows, x, x_row, numbers, scales, cols, codec.group, y, y_row);
      case 3:
        return scaled_rows<3>(rows, x, x_row, numbers, scales, cols, codec.group, y, y_row);
      case 4:
        return scaled_rows<4>(rows, x, x_row, numbers, scales, cols, codec.group, y, y_row);
#endif
      default:
        return scaled_rows<1>(rows, x, x_row, numbers, scales, cols, codec.group, y, y_row);
    }
  }
}

// Rows that meet a slab of numbers one after the other: as many as the second-level cache holds beside it.
constexpr int64_t kCodedRows = 192;

template <typename Codec>
void slab_blocks(const Codec& codec, const float* x, int64_t x_row, int64_t rows, const uint8_t* panel, int64_t vectors,
                 float* y, int64_t y_row, uint8_t* scratch) {
  float *numbers = reinterpret_cast<float*>(scratch), *scales = reinterpret_cast<float*>(scratch + kCodedSlabBytes);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < vectors * kLanes; i += kLanes) store(y + r * y_row + i, zero());
  for (int64_t c = 0; c < codec.cols; c += kCodedSlab) {
    const int64_t cols = smaller(kCodedSlab, codec.cols - c);
    for (int64_t v = 0, n; v < vectors; v += n) {
      n = smaller(kTileVectors, vectors - v);
      decode_slab(codec, panel + v * codec.panel_bytes(), c, c + cols, n, numbers, scales);
      multiply_slab(codec, x + c, x_row, rows, cols, n, numbers, scales, y + v * kLanes, y_row);
    }
  }
  for (int64_t v = 0; v < vectors; ++v) {
    const F factor = codec.factor(panel + v * codec.panel_bytes());
    for (int64_t r = 0; r < rows; ++r) {
      float* at = y + r * y_row + v * kLanes;
      store(at, finished(load(at), factor));
    }
  }
}

// y [rows][vectors × 16] for plain rows of x and `vectors` panels from `panel` on. scratch: kCodedScratch bytes.
template <typename Codec>
void coded_blocks(const Codec& codec, const float* x, int64_t x_row, int64_t rows, const uint8_t* panel,
                  int64_t vectors, float* y, int64_t y_row, uint8_t* scratch) {
  if (rows <= kDirectRows) return direct_blocks(codec, x, x_row, rows, panel, vectors, y, y_row);
  const int64_t chunks = (rows + kCodedRows - 1) / kCodedRows;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t r = rows * i / chunks, n = rows * (i + 1) / chunks - r;
    slab_blocks(codec, x + r * x_row, x_row, n, panel, vectors, y + r * y_row, y_row, scratch);
  }
}

// Panels `share` of one weight for all rows of a launch; the last panel may be short.
template <typename Codec>
void coded_weight(const Codec& codec, const tenon_view& x, int64_t rows, const tenon_weight& w, const tenon_view& y,
                  Span share, uint8_t* scratch) {
  const uint8_t* panel = pointer_at<uint8_t>(w.plane[0], 0);
  const int64_t whole = smaller(share.end, y.cols / kLanes), x_row = x.row_bytes / 4;
  if (share.begin < whole)
    coded_blocks(codec, f32_at(&x, 0, 0), x_row, rows, panel + share.begin * codec.panel_bytes(), whole - share.begin,
                 f32_at(&y, 0, share.begin * kLanes), y.row_bytes / 4, scratch);
  if (whole >= share.end) return;
  float* buffer = reinterpret_cast<float*>(scratch + kCodedSlabBytes + kCodedScaleBytes);
  for (int64_t r = 0; r < rows; r += kCodedTailRows) {
    const int64_t n = smaller(kCodedTailRows, rows - r);
    coded_blocks(codec, f32_at(&x, r, 0), x_row, n, panel + whole * codec.panel_bytes(), 1, buffer, kLanes, scratch);
    for (int64_t i = 0; i < n; ++i)
      store_first(f32_at(&y, r + i, whole * kLanes), load(buffer + i * kLanes), y.cols - whole * kLanes);
  }
}

// The rows of a strided input behind one another, in the scratch behind kCodedScratch.
inline tenon_view plain_rows(const tenon_view& x, int64_t rows, uint8_t* scratch) {
  if (x.groups <= 1) return x;
  float* to = reinterpret_cast<float*>(scratch + kCodedScratch);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0, n; c < x.cols; c += n) {
      n = run_of(&x, c);
      memcpy(to + r * x.cols + c, f32_at(&x, r, c), size_t(n) * sizeof(float));
    }
  }
  return plain_view(to, rows, x.cols, x.cols);
}

// `with_codec(weight, body)` calls body with the codec of a packed weight.
template <typename WithCodec>
TENON_INLINE void coded_linear(const tenon_args* args, const tenon_exec* exec, WithCodec with_codec) {
  uint8_t* scratch = static_cast<uint8_t*>(exec->scratch);
  const tenon_view x = plain_rows(args->in[0], args->rows, scratch);
  for (uint32_t i = 0; i < args->n_weight; ++i) {
    const tenon_weight& w = args->weight[i];
    const Span share = share_of((w.rows + kLanes - 1) / kLanes, exec);
    with_codec(w, [&](const auto& codec) { coded_weight(codec, x, args->rows, w, args->out[i], share, scratch); });
  }
}

template <typename WithCodec>
TENON_INLINE tenon_status coded_experts(const CodedExpertPlan* plan, const tenon_args* args, const tenon_exec* exec,
                                        WithCodec with_codec) {
  const auto multiply = [=](int, const tenon_weight& w, const tenon_view& x, int64_t rows, int64_t block,
                            int64_t blocks, float* y, int64_t y_row, uint8_t* own) {
    with_codec(w, [&](const auto& codec) {
      coded_blocks(codec, f32_at(&x, 0, 0), x.row_bytes / 4, rows,
                   pointer_at<uint8_t>(w.plane[0], block * codec.panel_bytes()), blocks, y, y_row, own);
    });
  };
  return ExpertRun(plan->attr, expert_sizes(plan->attr, args->weight, plan->max_rows, kCodedScratch), *args, *exec,
                   multiply)();
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
