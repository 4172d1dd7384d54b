// attention_tile.cuh: a prompt's rows on tensor cores.
//
// A block takes consecutive rows of one sequence and one head, a warp 16 of them; tiles of 64 keys at absolute positions go
// through shared memory in ascending order, and every row keeps its own running softmax. Sums run along the tile in the
// product's fixed order. A tile that a row does not see adds zeros to it: its bits do not depend on the rows beside it. q
// comes in the cache's own type; weights are rounded to it, their sum is not.
//
// Keys that no row of the block sees are not read. Heads wider than 256 are cut in two halves of the sum, a warp each,
// both of which score the keys.
#pragma once

#include "attention.cuh"
#include "matrix_half.cuh"

namespace tenon::cuda {

constexpr int kTileWarps = 8, kTileThreads = kTileWarps * int(kWarp), kWarpRows = 16;

// Rows of f16 or bf16 values: where a head's columns lie.
struct HalfRows {
  const uint8_t* data;
  int64_t row_bytes, group_bytes;
  int32_t cols, width;
  __device__ const uint8_t* at(int64_t r, int32_t c) const {
    const int32_t group = width == cols ? 0 : c / width;
    return data + r * row_bytes + group * group_bytes + int64_t(c - group * width) * 2;
  }
};
inline HalfRows half_rows_of(const tenon_view& v) {
  const int64_t groups = v.groups > 1 ? v.groups : 1;
  return {reinterpret_cast<const uint8_t*>(v.data), v.row_bytes, v.group_bytes, int32_t(v.cols), int32_t(v.cols / groups)};
}

// What one row sees: first_seen … index, and its span's positions.
struct RowSight {
  int32_t first_seen, index, span_first, span_last;
  __device__ bool sees(int32_t p) const {
    return (p >= first_seen && p <= index) || (p >= span_first && p <= span_last);
  }
};

template <int kDim>
struct TileShape {
  static constexpr int kHalves = kDim > 256 ? 2 : 1;
  static constexpr int kRows = kTileWarps / kHalves * kWarpRows;
  static constexpr int kSums = kDim / kHalves / 8;  // blocks of eight columns that a warp sums
  static constexpr int kRowBytes = kDim * 2;
  static constexpr uint32_t kBytes = uint32_t((kRows + 2 * kTile) * kRowBytes);  // q, keys, values
};

// Rows first … first + n - 1 of the step, all of one sequence. n = 0: nothing is left for the block.
struct RowRange {
  int32_t first, n, seq;
};
__device__ inline RowRange rows_of_block(const StepRows& step, int32_t n_seqs, int32_t tile, int32_t tile_rows) {
  for (int32_t seq = 0; seq < n_seqs; ++seq) {
    const int32_t begin = step.row_start[seq], rows = step.row_start[seq + 1] - begin;
    const int32_t tiles = (rows + tile_rows - 1) / tile_rows;
    if (tile < tiles) {
      // The last rows first: they see the most keys.
      const int32_t at = (tiles - 1 - tile) * tile_rows;
      return {begin + at, rows - at < tile_rows ? rows - at : tile_rows, seq};
    }
    tile -= tiles;
  }
  return {0, 0, 0};
}

__device__ inline RowSight row_sight(const AttentionShape& shape, const StepRows& step, int32_t seq, int32_t r) {
  RowSight s;
  s.index = step.index[r];
  s.first_seen = shape.window > 0 && s.index - shape.window + 1 > 0 ? s.index - shape.window + 1 : 0;
  s.span_first = 1, s.span_last = 0;
  const int32_t span = shape.has_spans && step.span ? step.span[r] : -1;
  if (span < 0) return s;
  int32_t first = r, last = r;
  while (first > step.row_start[seq] && step.span[first - 1] == span) --first;
  while (last + 1 < step.row_start[seq + 1] && step.span[last + 1] == span) ++last;
  s.span_first = step.index[first], s.span_last = step.index[last];
  return s;
}

// 64 rows of a page into shared memory; those outside `from` … `to` (of the tile) and columns from `dim` on become 0.
template <int kDim>
__device__ void copy_tile(uint8_t* into, const uint8_t* rows, int32_t row_bytes, int32_t dim, int from, int to) {
  constexpr int kChunks = kDim / 8;
  for (int i = int(threadIdx.x); i < kTile * kChunks; i += kTileThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool is_wanted = row >= from && row <= to && chunk * 8 < dim;
    copy_chunk(into + chunk_offset<kDim>(row, chunk), rows + (is_wanted ? row * row_bytes + chunk * 16 : 0), is_wanted);
  }
  commit_copies();
}

// Scores of the warp's 16 rows and a tile's 64 keys.
template <bool is_bf16, int kDim>
__device__ void score_tile(const uint8_t* queries, const uint8_t* keys, int warp_row, int32_t dim, float (&score)[8][4]) {
  const int lane = int(threadIdx.x % kWarp);
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) score[n][i] = 0;
  const int q_row = warp_row + lane % 16, q_chunk = lane / 16, k_row = lane % 8 + lane / 16 * 8, k_chunk = lane / 8 % 2;
#pragma unroll 2
  for (int step = 0; step < dim / 16; ++step) {
    uint32_t a[4];
    load_matrices(a, queries + chunk_offset<kDim>(q_row, 2 * step + q_chunk));
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      uint32_t b[4];
      load_matrices(b, keys + chunk_offset<kDim>(8 * n + k_row, 2 * step + k_chunk));
      mma_half<is_bf16>(score[n], a, b[0], b[1]);
      mma_half<is_bf16>(score[n + 1], a, b[2], b[3]);
    }
  }
}

// Two rows of a lane, g and 8 + g of the warp's 16: largest score so far, this lane's share of the weights' sum.
struct RowSums {
  float largest[2], total[2];
};

// Scores become weights, as A of the next product; the rows' sums so far are to be multiplied by `shrink`.
template <bool is_bf16>
__device__ void weigh_tile(const AttentionShape& shape, const RowSight (&sight)[2], int32_t position, bool all_seen,
                           bool is_lost, float (&score)[8][4], RowSums& rows, float (&shrink)[2], uint32_t (&weight)[4][4]) {
  constexpr float kLog2E = 1.44269504088896341f;
  const int t = int(threadIdx.x % 4);
  const float minus_infinity = __uint_as_float(0xff800000u);
  uint32_t seen = 0xffffffffu;
  float largest[2] = {minus_infinity, minus_infinity};
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& s = score[n][i];
      s = is_lost ? quiet_nan() : s * shape.scale;
      if (shape.softcap > 0) s = shape.softcap * tanhf(s / shape.softcap);
      if (!all_seen && !sight[i / 2].sees(position + 8 * n + 2 * t + i % 2)) {
        seen &= ~(1u << (4 * n + i));
      } else {
        largest[i / 2] = fmaxf(largest[i / 2], s);
      }
    }
  float safe[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    largest[k] = fmaxf(largest[k], __shfl_xor_sync(kAll, largest[k], 1));
    largest[k] = fmaxf(largest[k], __shfl_xor_sync(kAll, largest[k], 2));
    largest[k] = fmaxf(largest[k], rows.largest[k]);
    safe[k] = isinf(largest[k]) && largest[k] < 0 ? 0.0f : largest[k];
    shrink[k] = exp2f((rows.largest[k] - safe[k]) * kLog2E);
    rows.largest[k] = largest[k], rows.total[k] *= shrink[k];
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      score[n][i] = seen >> (4 * n + i) & 1 ? exp2f((score[n][i] - safe[i / 2]) * kLog2E) : 0.0f;
      rows.total[i / 2] += score[n][i];
    }
    weight[n / 2][2 * (n % 2)] = pair_of(to_half<is_bf16>(score[n][0] * kTileWeightScale),
                                         to_half<is_bf16>(score[n][1] * kTileWeightScale));
    weight[n / 2][2 * (n % 2) + 1] = pair_of(to_half<is_bf16>(score[n][2] * kTileWeightScale),
                                             to_half<is_bf16>(score[n][3] * kTileWeightScale));
  }
}

// Grid (heads, tiles of rows).
template <bool is_bf16, int kDim>
__global__ void __launch_bounds__(kTileThreads, 1)
    attention_tile(AttentionShape shape, HalfRows q, View o, Pages pages, StepRows step, const uint32_t* n_seqs, Live live) {
  using S = TileShape<kDim>;
  TENON_SHARED_MEMORY(memory);
  __shared__ RowSight sights[S::kRows];
  __shared__ RowRange range;
  __shared__ int32_t bounds[4];  // first and last key of any row; keys that all rows see
  uint8_t *const queries = memory, *const keys = queries + S::kRows * S::kRowBytes, *const values = keys + kTile * S::kRowBytes;
  const int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp), g = lane / 4, t = lane % 4;
  if (live.get() == 0) return;
  if (threadIdx.x == 0) range = rows_of_block(step, int32_t(*n_seqs), int32_t(blockIdx.y), S::kRows);
  __syncthreads();
  if (range.n == 0) return;
  if (int(threadIdx.x) < S::kRows) {
    RowSight none = {1, 0, 1, 0};
    sights[threadIdx.x] =
        int(threadIdx.x) < range.n ? row_sight(shape, step, range.seq, range.first + int32_t(threadIdx.x)) : none;
  }
  const int32_t head = int32_t(blockIdx.x), kv_head = head / shape.per_kv;
  constexpr int kChunks = kDim / 8;
  for (int i = int(threadIdx.x); i < S::kRows * kChunks; i += kTileThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool is_wanted = row < range.n && chunk * 8 < shape.dim_k;
    const uint8_t* from = is_wanted ? q.at(range.first + row, head * shape.dim_k + chunk * 8) : q.data;
    copy_chunk(queries + chunk_offset<kDim>(row, chunk), from, is_wanted);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t first = INT32_MAX, last = 0, all_first = 0, all_last = INT32_MAX;
    for (int r = 0; r < range.n; ++r) {
      const RowSight& s = sights[r];
      const bool has_span = s.span_last >= s.span_first;
      const int32_t low = has_span && s.span_first < s.first_seen ? s.span_first : s.first_seen;
      const int32_t high = has_span && s.span_last > s.index ? s.span_last : s.index;
      first = low < first ? low : first, last = high > last ? high : last;
      all_first = s.first_seen > all_first ? s.first_seen : all_first, all_last = s.index < all_last ? s.index : all_last;
    }
    bounds[0] = first, bounds[1] = last, bounds[2] = all_first, bounds[3] = all_last;
  }
  __syncthreads();

  const int warp_row = warp / S::kHalves * kWarpRows, half = warp % S::kHalves;
  const bool is_busy = warp_row < range.n;
  const RowSight sight[2] = {sights[warp_row + g], sights[warp_row + 8 + g]};
  RowSums rows;
  float sum[S::kSums][4];
#pragma unroll
  for (int k = 0; k < 2; ++k) rows.largest[k] = __uint_as_float(0xff800000u), rows.total[k] = 0;
#pragma unroll
  for (int i = 0; i < S::kSums; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[i][k] = 0;

  const int32_t first = bounds[0], last = bounds[1], all_first = bounds[2], all_last = bounds[3];
  const auto fetch = [&](uint8_t* into, int32_t tile, bool is_value) {
    const int32_t page = pages.page(range.seq, tile), position = tile * kTile;
    const int from = first - position, to = page < 0 ? -1 : last - position;
    const uint8_t* rows_at = is_value ? pages.values(page < 0 ? 0 : page, kv_head) : pages.keys(page < 0 ? 0 : page, kv_head);
    copy_tile<kDim>(into, rows_at, is_value ? pages.row_bytes_v : pages.row_bytes_k, is_value ? shape.dim_v : shape.dim_k, from,
                    to);
  };
  fetch(keys, first / kTile, false);
  for (int32_t tile = first / kTile; tile <= last / kTile; ++tile) {
    const int32_t position = tile * kTile;
    const bool all_seen = all_first <= position && position + kTile - 1 <= all_last;
    const bool is_lost = pages.page(range.seq, tile) < 0;
    uint32_t weight[4][4];
    float shrink[2];
    wait_for_copies();
    __syncthreads();  // keys are here, and the values before have been used
    fetch(values, tile, true);
    if (is_busy) {
      float score[8][4];
      score_tile<is_bf16, kDim>(queries, keys, warp_row, shape.dim_k, score);
      weigh_tile<is_bf16>(shape, sight, position, all_seen, is_lost, score, rows, shrink, weight);
    }
    wait_for_copies();
    __syncthreads();  // values are here, and the keys have been used
    if (tile < last / kTile) fetch(keys, tile + 1, false);
    if (!is_busy) continue;
#pragma unroll
    for (int i = 0; i < S::kSums; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[i][k] *= shrink[k / 2];
    const int v_row = lane % 16, v_chunk = half * S::kSums + lane / 16;
#pragma unroll
    for (int i = 0; i < S::kSums; i += 2) {
      if (8 * (half * S::kSums + i) >= shape.dim_v) continue;
#pragma unroll
      for (int step_k = 0; step_k < 4; ++step_k) {
        uint32_t b[4];
        load_matrices_across(b, values + chunk_offset<kDim>(16 * step_k + v_row, v_chunk + i));
        mma_half<is_bf16>(sum[i], weight[step_k], b[0], b[1]);
        mma_half<is_bf16>(sum[i + 1], weight[step_k], b[2], b[3]);
      }
    }
  }
  if (!is_busy) return;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float total = rows.total[k];
    total += __shfl_xor_sync(kAll, total, 1);
    total += __shfl_xor_sync(kAll, total, 2);
    const int row = warp_row + 8 * k + g;
    if (row >= range.n) continue;
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) {
      const int c = 8 * (half * S::kSums + i) + 2 * t;
      if (c >= shape.dim_v) continue;
      float* to = o.at(range.first + row, head * shape.dim_v + c);
      to[0] = sum[i][2 * k] * (1 / kTileWeightScale) / total, to[1] = sum[i][2 * k + 1] * (1 / kTileWeightScale) / total;
    }
  }
}

struct AttentionTileLaunch {
  AttentionShape shape;
  HalfRows q;
  View o;
  Pages pages;
  StepRows step;
  const uint32_t* n_seqs;
  uint32_t max_seqs;
  Live live;
};
template <bool is_bf16, int kDim>
void enqueue_attention_tile(const Launch& launch, const AttentionTileLaunch& a) {
  using S = TileShape<kDim>;
  // A sequence's last rows may fill no whole tile.
  const uint32_t rows = launch.rows(), tails = a.max_seqs < rows ? a.max_seqs : rows;
  const dim3 grid(unsigned(a.shape.heads), rows ? (rows - 1) / unsigned(S::kRows) + tails : 0);
  enqueue_with_memory(launch, "attention: tile", attention_tile<is_bf16, kDim>, grid, unsigned(kTileThreads), S::kBytes,
                      a.shape, a.q, a.o, a.pages, a.step, a.n_seqs, a.live);
}
template <bool is_bf16>
void enqueue_attention_tile(const Launch& launch, const AttentionTileLaunch& a) {
  const int32_t dim = a.shape.dim_k > a.shape.dim_v ? a.shape.dim_k : a.shape.dim_v;
  if (dim <= 64) return enqueue_attention_tile<is_bf16, 64>(launch, a);
  if (dim <= 128) return enqueue_attention_tile<is_bf16, 128>(launch, a);
  if (dim <= 256) return enqueue_attention_tile<is_bf16, 256>(launch, a);
  enqueue_attention_tile<is_bf16, 512>(launch, a);
}
// One translation unit each.
void enqueue_attention_tile_f16(const Launch&, const AttentionTileLaunch&);
void enqueue_attention_tile_bf16(const Launch&, const AttentionTileLaunch&);

}  // namespace tenon::cuda
