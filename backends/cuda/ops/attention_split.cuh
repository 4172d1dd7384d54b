// attention_split.cuh: a decode row's heads that share a K/V head, together, on tensor cores.
//
// A block of four warps works on one group of keys (attention_limits.hpp) for up to eight heads, so that K and V are read
// once for all of them. Warp w takes keys 16w … 16w + 15 of every tile of 64 in the group, tiles ascending; then the warps'
// parts are folded ascending. Queries and softmax weights enter the products as a sum of two rounded numbers, K and V as
// they are: what is lost is about 2^-22 of an f16 cache's results and 2^-17 of a bf16 cache's.
//
// K and V go from memory into the registers of the product, 16 bytes a load. A lane of mma_half.cuh's (g, t) has
//   scores: queries as A (rows 0 … 7 the upper, 8 … 15 the lower parts), keys g and 8 + g as B, columns 32j + 8t …
//   sums:   values as A (columns 64j + 8g …, keys 2t, 2t + 1, 8 + 2t, 9 + 2t), the weights of query g as B: the very
//           registers in which the scores come out
// Keys that the row does not see are not read: they may be anything.
#pragma once

#include "attention.cuh"
#include "mma_half.cuh"

namespace tenon::cuda {

constexpr int kSplitWarps = 4, kSplitThreads = kSplitWarps * int(kWarp);
constexpr int kQueries = 8;    // heads of a block
constexpr int kWarpKeys = 16;  // keys of a tile that a warp takes
static_assert(kSplitWarps * kWarpKeys == kTile);
// Weights are 0 … 1; f16 has more digits for them further up.
constexpr float kWeightScale = 32768.0f;

template <int kDim>
struct SplitMemory {
  Sight sight;  // of the row: here it costs no registers
  uint4 query[kDim / 16][kWarp];  // fragments of A
  float factor_of_scores[kQueries];
  float sum[kSplitWarps][kQueries][64 + 4];
  float largest[kSplitWarps][kQueries], total[kSplitWarps][kQueries], factor[kSplitWarps][kQueries];
  float group_largest[kQueries], group_total[kQueries];
  float old_factor[kQueries], new_factor[kQueries];  // of the fold of a group into what came before
  float row_largest[kQueries], row_total[kQueries];
  float row_sum[kQueries][kDim];
};

// exp(x - largest), where the largest of nothing is -inf.
__device__ inline float weight_of(float x, float largest) {
  return expf(x - (isinf(largest) && largest < 0 ? 0.0f : largest));
}

// A power of two by which numbers up to `largest` come below 2^11.
__device__ inline float power_for(float largest) {
  const int exponent = int(__float_as_uint(largest) >> 23 & 255);
  if (exponent == 255) return 1.0f;
  const int wanted = 264 - exponent;
  return __uint_as_float(uint32_t(wanted > 253 ? 253 : wanted) << 23);
}

// The queries of heads head0 … head0 + n - 1 as fragments; the others are 0.
template <bool is_bf16, int kDim>
__device__ void load_queries(const AttentionShape& shape, const View& q, uint32_t row, int32_t head0, int32_t n,
                             SplitMemory<kDim>& memory) {
  const int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp), g = lane / 4, t = lane % 4;
  for (int query = warp; query < kQueries; query += kSplitWarps) {
    float largest = 0;
    if (query < n) {
      const float* from = q.at(row, (head0 + query) * shape.dim_k);
      for (int c = lane; c < shape.dim_k; c += int(kWarp)) largest = fmaxf(largest, fabsf(from[c]));
    }
    const float power = power_for(warp_max(largest));
    if (lane == 0) memory.factor_of_scores[query] = power;
  }
  __syncthreads();
  const float power = memory.factor_of_scores[g];
  for (int j = warp; j < kDim / 32; j += kSplitWarps) {
    float x[8] = {};
    const int c = 32 * j + 8 * t;
    if (g < n && c < shape.dim_k) {
      const float* from = q.at(row, (head0 + g) * shape.dim_k + c);  // heads lie in one piece
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = from[i] * power;
    }
    uint4 a, b;
    split_pair<is_bf16>(x[0], x[1], a.x, a.y);
    split_pair<is_bf16>(x[2], x[3], a.z, a.w);
    split_pair<is_bf16>(x[4], x[5], b.x, b.y);
    split_pair<is_bf16>(x[6], x[7], b.z, b.w);
    memory.query[2 * j][lane] = a, memory.query[2 * j + 1][lane] = b;
  }
  __syncthreads();
  if (threadIdx.x < kQueries) {
    memory.factor_of_scores[threadIdx.x] = shape.scale / memory.factor_of_scores[threadIdx.x];
    memory.row_largest[threadIdx.x] = __uint_as_float(0xff800000u), memory.row_total[threadIdx.x] = 0;
  }
#pragma unroll 1
  for (int i = int(threadIdx.x); i < kQueries * kDim; i += kSplitThreads) memory.row_sum[i / kDim][i % kDim] = 0;
  __syncthreads();
}

// What a warp has of a group: `largest` and this lane's share of `total` of query g; columns 64j + 8g + 2i and + 1 of
// queries 2t and 2t + 1.
template <int kDim>
struct WarpPart {
  float largest, total;
  float sum[kDim / 64][4][4];
};

// Bits of those of 16 keys from p on that the row sees.
__device__ inline uint32_t seen_of(const Sight& sight, int64_t p) {
  const int64_t low = sight.window_begin > p ? sight.window_begin - p : 0;
  const int64_t high = sight.index - p < kWarpKeys - 1 ? sight.index - p : kWarpKeys - 1;
  uint32_t seen = high < low ? 0u : ((2u << high) - 1) & ~((1u << low) - 1);
  if (sight.span >= 0)
    for (int i = 0; i < kWarpKeys; ++i) seen |= uint32_t(sight.sees(p + i)) << i;
  return seen;
}

__device__ inline uint4 load_if(bool wanted, const uint8_t* from) {
  return wanted ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}

// Scores of query g and keys 2t, 2t + 1, 8 + 2t, 9 + 2t.
template <bool is_bf16, int kDim>
__device__ void score_keys(const AttentionShape& shape, const uint8_t* keys, int32_t row_bytes, uint32_t seen,
                           const SplitMemory<kDim>& memory, float (&score)[4]) {
  constexpr int kAhead = kDim / 32 < 4 ? kDim / 32 : 4;
  const int lane = int(threadIdx.x % kWarp), g = lane / 4, t = lane % 4;
  float c[2][4] = {};
  const bool has_first = seen >> g & 1, has_second = seen >> (8 + g) & 1;
  const uint8_t *first = keys + g * row_bytes + 16 * t, *second = first + 8 * row_bytes;
#pragma unroll
  for (int j0 = 0; j0 < kDim / 32; j0 += kAhead) {
    uint4 x[kAhead], y[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const bool is_there = 32 * (j0 + j) < shape.dim_k;
      x[j] = load_if(has_first && is_there, first + 64 * (j0 + j));
      y[j] = load_if(has_second && is_there, second + 64 * (j0 + j));
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const uint4 low = memory.query[2 * (j0 + j)][lane], high = memory.query[2 * (j0 + j) + 1][lane];
      const uint32_t a[4] = {low.x, low.y, low.z, low.w}, b[4] = {high.x, high.y, high.z, high.w};
      mma_half<is_bf16>(c[0], a, x[j].x, x[j].y);
      mma_half<is_bf16>(c[1], a, y[j].x, y[j].y);
      mma_half<is_bf16>(c[0], b, x[j].z, x[j].w);
      mma_half<is_bf16>(c[1], b, y[j].z, y[j].w);
    }
  }
  const float factor = memory.factor_of_scores[g];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    score[i] = (c[i / 2][i % 2] + c[i / 2][2 + i % 2]) * factor;
    if (shape.softcap > 0) score[i] = shape.softcap * tanhf(score[i] / shape.softcap);
  }
}

// The warp's 16 keys of a tile into `part`.
template <bool is_bf16, int kDim>
__device__ void attend_keys(const AttentionShape& shape, const Pages& pages, int32_t page, int32_t kv_head, uint32_t seen,
                            const SplitMemory<kDim>& memory, WarpPart<kDim>& part) {
  const int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp), g = lane / 4, t = lane % 4;
  const uint8_t* keys = pages.keys(page < 0 ? 0 : page, kv_head) + kWarpKeys * warp * pages.row_bytes_k;
  const uint8_t* values = pages.values(page < 0 ? 0 : page, kv_head) + kWarpKeys * warp * pages.row_bytes_v;
  const uint32_t readable = page < 0 ? 0 : seen;
  float score[4], weight[4];
  score_keys<is_bf16, kDim>(shape, keys, pages.row_bytes_k, readable, memory, score);

  const float minus_infinity = __uint_as_float(0xff800000u);
  const int key[4] = {2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t};
  float largest = minus_infinity;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (page < 0) score[i] = quiet_nan();  // a key without a page: the fault shows in this row
    if (seen >> key[i] & 1) largest = fmaxf(largest, score[i]);
  }
  largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, 2));
  largest = fmaxf(largest, part.largest);
  const float shrink = weight_of(part.largest, largest);
#pragma unroll
  for (int i = 0; i < 4; ++i) weight[i] = seen >> key[i] & 1 ? weight_of(score[i], largest) : 0.0f;
  part.largest = largest;
  part.total = part.total * shrink + ((weight[0] + weight[1]) + (weight[2] + weight[3]));

  uint32_t high[2], low[2];
  split_pair<is_bf16>(weight[0] * kWeightScale, weight[1] * kWeightScale, high[0], low[0]);
  split_pair<is_bf16>(weight[2] * kWeightScale, weight[3] * kWeightScale, high[1], low[1]);
  const float shrink0 = __shfl_sync(kAll, shrink, 8 * t), shrink1 = __shfl_sync(kAll, shrink, 8 * t + 4);
#pragma unroll
  for (int j = 0; j < kDim / 64; ++j) {
    const int c = 64 * j + 8 * g;
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      v[i] = load_if((readable >> key[i] & 1) && c < shape.dim_v, values + key[i] * pages.row_bytes_v + 2 * c);
    const uint32_t word[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                 {v[1].x, v[1].y, v[1].z, v[1].w},
                                 {v[2].x, v[2].y, v[2].z, v[2].w},
                                 {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float(&sum)[4] = part.sum[j][i];
      sum[0] *= shrink0, sum[1] *= shrink1, sum[2] *= shrink0, sum[3] *= shrink1;
      const uint32_t a[4] = {firsts(word[0][i], word[1][i]), seconds(word[0][i], word[1][i]),
                             firsts(word[2][i], word[3][i]), seconds(word[2][i], word[3][i])};
      mma_half<is_bf16>(sum, a, high[0], high[1]);
      mma_half<is_bf16>(sum, a, low[0], low[1]);
    }
  }
}

// The fold of one part into what came before: the factors of both.
__device__ inline float fold_factors(float largest, float part_largest, float& old_factor, float& new_factor) {
  const float both = fmaxf(largest, part_largest);
  old_factor = weight_of(largest, both), new_factor = weight_of(part_largest, both);
  return both;
}
__device__ inline float fold_number(float into, float part, float old_factor, float new_factor) {
  return fmaf(part, new_factor, into * old_factor);
}

// The parts of the warps, ascending, as the group's: to `out` [kQueries][max_groups][dim_v + 4] (heads `head_floats`
// apart), or into the row's numbers in `memory`.
template <int kDim>
__device__ void fold_warps(const AttentionShape& shape, int32_t n, WarpPart<kDim>& part, SplitMemory<kDim>& memory,
                           float* out, int64_t head_floats) {
  const int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp), g = lane / 4, t = lane % 4;
  part.total += __shfl_xor_sync(kAll, part.total, 1);
  part.total += __shfl_xor_sync(kAll, part.total, 2);
  if (t == 0) memory.largest[warp][g] = part.largest, memory.total[warp][g] = part.total;
  __syncthreads();
  if (threadIdx.x < kQueries) {
    const int query = int(threadIdx.x);
    float largest = memory.largest[0][query], total = 0;
    for (int w = 1; w < kSplitWarps; ++w) largest = fmaxf(largest, memory.largest[w][query]);
    for (int w = 0; w < kSplitWarps; ++w) {
      const float factor = weight_of(memory.largest[w][query], largest);
      total = fmaf(memory.total[w][query], factor, total);
      memory.factor[w][query] = factor * (1 / kWeightScale);
    }
    if (out) {
      if (query < n) out[query * head_floats + shape.dim_v] = largest, out[query * head_floats + shape.dim_v + 1] = total;
    } else {
      float old_factor, new_factor;
      memory.row_largest[query] = fold_factors(memory.row_largest[query], largest, old_factor, new_factor);
      memory.row_total[query] = fold_number(memory.row_total[query], total, old_factor, new_factor);
      memory.old_factor[query] = old_factor, memory.new_factor[query] = new_factor;
    }
  }
#pragma unroll
  for (int j = 0; j < kDim / 64; ++j) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k) memory.sum[warp][2 * t + k % 2][8 * g + 2 * i + k / 2] = part.sum[j][i][k];
    __syncthreads();
    const int column = int(threadIdx.x % 64), c = 64 * j + column;
    if (c < shape.dim_v) {
#pragma unroll 1
      for (int query = int(threadIdx.x / 64); query < n; query += kSplitThreads / 64) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kSplitWarps; ++w) sum = fmaf(memory.sum[w][query][column], memory.factor[w][query], sum);
        if (out) {
          out[query * head_floats + c] = sum;
        } else {
          float& into = memory.row_sum[query][c];
          into = fold_number(into, sum, memory.old_factor[query], memory.new_factor[query]);
        }
      }
    }
  }
  __syncthreads();
}

// Grid (blocks of heads, rows, slots). With a workspace, block z takes the row's groups z, z + slots … and leaves their parts;
// without one (a single slot) it folds all of them and writes the row.
template <bool is_bf16, int kDim>
__global__ void __launch_bounds__(kSplitThreads, kDim > 256 ? 2 : 3)
    attention_split(AttentionShape shape, View q, View o, Pages pages, StepRows step, float* workspace, int32_t max_groups,
                    int32_t blocks_per_kv, Live live) {
  __shared__ SplitMemory<kDim> memory;
  const int32_t kv_head = int32_t(blockIdx.x) / blocks_per_kv, part_of_heads = int32_t(blockIdx.x) % blocks_per_kv;
  const int32_t head0 = kv_head * shape.per_kv + part_of_heads * kQueries;
  const int32_t left = shape.per_kv - part_of_heads * kQueries, n = left < kQueries ? left : kQueries;
  const int warp = int(threadIdx.x / kWarp);
  wait_for_launch_before();
  if (workspace) let_next_launch_begin();  // the fold, whose blocks are few and small
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    __syncthreads();  // the row before has been read
    if (threadIdx.x == 0) memory.sight = sight_of(shape, step, r);
    __syncthreads();
    const Sight& sight = memory.sight;
    const int32_t keys = int32_t(split_group_keys(sight.index + 1, shape.window));
    const int32_t first = int32_t(sight.begin / keys), last = int32_t(sight.end / keys);
    if (first + int32_t(blockIdx.z) > last) continue;
    load_queries<is_bf16, kDim>(shape, q, r, head0, n, memory);
    for (int32_t group = first + int32_t(blockIdx.z); group <= last; group += int32_t(gridDim.z)) {
      if (workspace && group - first >= max_groups) break;
      WarpPart<kDim> part;
      part.largest = __uint_as_float(0xff800000u), part.total = 0;
#pragma unroll
      for (int i = 0; i < kDim / 4; ++i) part.sum[i / 16][i / 4 % 4][i % 4] = 0;
      const int32_t tiles = keys / kTile, begin = int32_t(sight.begin / kTile), end = int32_t(sight.end / kTile);
      const int32_t from = begin > group * tiles ? begin : group * tiles, beyond = (group + 1) * tiles;
      for (int32_t tile = from; tile <= end && tile < beyond; ++tile) {
        const uint32_t seen = seen_of(sight, int64_t(tile) * kTile + kWarpKeys * warp);
        if (seen)
          attend_keys<is_bf16, kDim>(shape, pages, pages.page(sight.seq, tile), kv_head, seen, memory, part);
      }
      const int64_t group_floats = partial_floats(shape.dim_v), head_floats = max_groups * group_floats;
      float* out = workspace ? workspace + (int64_t(r) * shape.heads + head0) * head_floats + (group - first) * group_floats
                             : nullptr;
      fold_warps<kDim>(shape, n, part, memory, out, head_floats);
    }
    if (workspace) continue;
#pragma unroll 1
    for (int query = 0; query < n; ++query) {
      float* to = o.at(r, (head0 + query) * shape.dim_v);
#pragma unroll 1
      for (int c = int(threadIdx.x); c < shape.dim_v; c += kSplitThreads)
        to[c] = memory.row_sum[query][c] / memory.row_total[query];
    }
  }
}

struct SplitLaunch {
  AttentionShape shape;
  View q, o;
  Pages pages;
  StepRows step;
  float* workspace;
  int32_t max_groups, blocks_per_kv;
  dim3 grid;
  Live live;
};
template <bool is_bf16>
void enqueue_attention_split(const Launch& launch, const SplitLaunch& a) {
  const auto with = [&](auto kernel) {
    enqueue_early(launch, "attention: split", kernel, a.grid, unsigned(kSplitThreads), a.shape, a.q, a.o, a.pages, a.step,
            a.workspace, a.max_groups, a.blocks_per_kv, a.live);
  };
  const int32_t dim = a.shape.dim_k > a.shape.dim_v ? a.shape.dim_k : a.shape.dim_v;
  if (dim <= 64) return with(attention_split<is_bf16, 64>);
  if (dim <= 128) return with(attention_split<is_bf16, 128>);
  if (dim <= 256) return with(attention_split<is_bf16, 256>);
  with(attention_split<is_bf16, 512>);
}
// One translation unit each.
void enqueue_attention_split_f16(const Launch&, const SplitLaunch&);
void enqueue_attention_split_bf16(const Launch&, const SplitLaunch&);

}  // namespace tenon::cuda
