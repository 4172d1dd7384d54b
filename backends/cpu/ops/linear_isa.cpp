// linear: y = x W^T for float weights packed sixteen rows to a vector, and for weights of any dtype, decoded on the
// way.
#include "../simd/amx.hpp"
#include "../simd/product.hpp"
#include "../simd/transpose.hpp"
#include "op_plan.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

template <typename B>
void packed_weight(const tenon_view* x, const tenon_weight* w, const tenon_view* y, int64_t rows, Span blocks) {
  const B* panel = pointer_at<B>(w->plane[0], 0);
  const int64_t k = x->cols, whole = smaller(blocks.end, y->cols / kLanes), y_row = y->row_bytes / 4;
  if (blocks.begin < whole) {
    multiply_blocks(x, panel + blocks.begin * k * kLanes, rows, whole - blocks.begin,
                    f32_at(y, 0, blocks.begin * kLanes), y_row);
  }
  if (whole < blocks.end) {  // the last block is short: through a buffer, a few rows at a time
    float buffer[kTileRows * kLanes];
    for (int64_t r = 0; r < rows; r += kTileRows) {
      tenon_view part = *x;
      part.data += tenon_addr(r * x->row_bytes);
      const int64_t n = smaller(kTileRows, rows - r);
      multiply_blocks(&part, panel + whole * k * kLanes, n, 1, buffer, kLanes);
      for (int64_t i = 0; i < n; ++i)
        store_first(f32_at(y, r + i, whole * kLanes), load(buffer + i * kLanes), y->cols - whole * kLanes);
    }
  }
}

tenon_status packed_f32(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  for (uint32_t i = 0; i < args->n_weight; ++i) {
    const tenon_view* y = &args->out[i];
    const Span blocks = share_of((y->cols + kLanes - 1) / kLanes, exec);
    switch (plan->dtype_id[i]) {
      case TENON_DTYPE_F16:
        packed_weight<Half>(&args->in[0], &args->weight[i], y, args->rows, blocks);
        break;
      case TENON_DTYPE_BF16:
        packed_weight<Brain>(&args->in[0], &args->weight[i], y, args->rows, blocks);
        break;
      default:
        packed_weight<float>(&args->in[0], &args->weight[i], y, args->rows, blocks);
        break;
    }
  }
  return TENON_OK;
}

// Each block of sixteen rows is decoded once a launch, then multiplied with all rows of x.
tenon_status decoded(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view* x = &args->in[0];
  const int64_t k = x->cols, vectors = plan->n_units;
  float* rows = static_cast<float*>(exec->scratch);
  tenon_weight panel = {};
  panel.plane[0] = reinterpret_cast<tenon_addr>(rows + kLanes * k);
  for (uint32_t i = 0; i < args->n_weight; ++i) {
    const tenon_view* y = &args->out[i];
    const Span blocks = share_of((y->cols + kLanes - 1) / kLanes, exec);
    for (int64_t b = blocks.begin; b < blocks.end; b += vectors) {
      const int64_t n = smaller(vectors, blocks.end - b);
      for (int64_t j = 0; j < n; ++j) {
        const int64_t row = (b + j) * kLanes, count = smaller(kLanes, y->cols - row);
        if (const tenon_status status = plan->dtype[i]->decode(&args->weight[i], row, count, rows)) return status;
        pack_block(rows, count, k, pointer_at<float>(panel.plane[0], j * k * kLanes));
      }
      tenon_view part = *y;  // columns of these blocks as an output of its own
      part.data += tenon_addr(b * kLanes * 4), part.cols = smaller(n * kLanes, y->cols - b * kLanes);
      packed_weight<float>(x, &panel, &part, args->rows, {0, n});
    }
  }
  return TENON_OK;
}

#if defined(TENON_ISA_avx512)

// bf16 × bf16 summed in f32, two columns of K at once. B: [k / 2][16 rows][2].
template <int kRows, int kVectors>
__attribute__((noinline)) void tile_bf16(const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step, float* c,
                                         int64_t c_row, int64_t pairs, bool add) {
  __m512 acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j)
      acc[r][j] = add ? _mm512_loadu_ps(c + r * c_row + j * kLanes) : _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < pairs; ++i) {
    __m512i vector[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) vector[j] = _mm512_loadu_si512(b + j * b_step + i * 64);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      memcpy(&pair, a + r * a_step + i * 4, 4);
      const __m512i x = _mm512_set1_epi32(pair);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j)
        acc[r][j] = _mm512_dpbf16_ps(acc[r][j], reinterpret_cast<__m512bh>(vector[j]), reinterpret_cast<__m512bh>(x));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(c + r * c_row + j * kLanes, acc[r][j]);
  }
}

template <int kVectors>
TENON_INLINE void tile_bf16_of(int64_t rows, const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
                               float* c, int64_t c_row, int64_t pairs, bool add) {
  switch (rows) {
    case 1:
      return tile_bf16<1, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
    case 2:
      return tile_bf16<2, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
    case 3:
      return tile_bf16<3, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
    case 4:
      return tile_bf16<4, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
    case 5:
      return tile_bf16<5, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
    default:
      return tile_bf16<6, kVectors>(a, a_step, b, b_step, c, c_row, pairs, add);
  }
}

// Blocks of sixteen outputs [0, vectors) from `panel` on, for all rows.
void multiply_bf16(const tenon_view* x, const uint8_t* panel, int64_t rows, int64_t vectors, float* y, int64_t y_row) {
  const int64_t k = x->cols, b_step = k * kLanes * 2, slab = rows > kTileRows ? 2 * kSlab : k;
  for (int64_t c = 0; c < k; c += slab) {
    const int64_t pairs = smaller(slab, k - c) / 2;
    for (int64_t j = 0; j < vectors;) {
      const uint8_t *a = element(x, 0, c, 2), *b = panel + j * b_step + c * kLanes * 2;
      if (rows == 1 && vectors - j >= 8) {
        tile_bf16<1, 8>(a, 0, b, b_step, y + j * kLanes, y_row, pairs, c != 0);
        j += 8;
        continue;
      }
      const int64_t n = vectors - j >= 4 ? 4 : 1, tiles = (rows + kTileRows - 1) / kTileRows;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = rows * t / tiles, m = rows * (t + 1) / tiles - r;
        const uint8_t* ar = a + r * x->row_bytes;
        float* cr = y + r * y_row + j * kLanes;
        if (n == 4) {
          tile_bf16_of<4>(m, ar, x->row_bytes, b, b_step, cr, y_row, pairs, c != 0);
        } else {
          tile_bf16_of<1>(m, ar, x->row_bytes, b, b_step, cr, y_row, pairs, c != 0);
        }
      }
      j += n;
    }
  }
}

tenon_status packed_bf16(const OpPlan*, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view* x = &args->in[0];
  const int64_t k = x->cols, rows = args->rows;
  for (uint32_t i = 0; i < args->n_weight; ++i) {
    const tenon_view* y = &args->out[i];
    const Span blocks = share_of((y->cols + kLanes - 1) / kLanes, exec);
    const int64_t whole = smaller(blocks.end, y->cols / kLanes);
    const uint8_t* panel = pointer_at<uint8_t>(args->weight[i].plane[0], 0);
    if (blocks.begin < whole) {
      multiply_bf16(x, panel + blocks.begin * k * kLanes * 2, rows, whole - blocks.begin,
                    f32_at(y, 0, blocks.begin * kLanes), y->row_bytes / 4);
    }
    if (whole >= blocks.end) continue;
    float buffer[kTileRows * kLanes];
    for (int64_t r = 0; r < rows; r += kTileRows) {
      tenon_view part = *x;
      part.data += tenon_addr(r * x->row_bytes);
      const int64_t n = smaller(kTileRows, rows - r);
      multiply_bf16(&part, panel + whole * k * kLanes * 2, n, 1, buffer, kLanes);
      for (int64_t j = 0; j < n; ++j)
        store_first(f32_at(y, r + j, whole * kLanes), load(buffer + j * kLanes), y->cols - whole * kLanes);
    }
  }
  return TENON_OK;
}

tenon_status amx_bf16(const OpPlan*, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view* x = &args->in[0];
  for (uint32_t i = 0; i < args->n_weight; ++i) {
    const tenon_view* y = &args->out[i];
    const Span panels = share_of((y->cols + kLanes - 1) / kLanes, exec);
    if (panels.begin >= panels.end) continue;
    amx::Job job = {};
    job.x = element(x, 0, 0, 2), job.x_row_bytes = x->row_bytes, job.rows = args->rows, job.k = x->cols;
    job.y = f32_at(y, 0, panels.begin * kLanes), job.y_row_bytes = y->row_bytes;
    job.panels = panels.end - panels.begin;
    job.last_lanes = smaller(kLanes, y->cols - (panels.end - 1) * kLanes);
    job.scratch = static_cast<uint8_t*>(exec->scratch);
    const uint8_t* packed = pointer_at<uint8_t>(args->weight[i].plane[0], panels.begin * x->cols * kLanes * 2);
    amx::linear(job, [&](int64_t panel, int64_t column, int64_t, uint8_t*) {
      return packed + (panel * x->cols + column) * kLanes * 2;
    });
  }
  return TENON_OK;
}

#endif

}  // namespace

const LinearTable kLinear = {packed_f32, decoded,
#if defined(TENON_ISA_avx512)
                             packed_bf16, amx_bf16
#else
                             nullptr, nullptr
#endif
};

}  // namespace tenon::cpu::TENON_ISA
