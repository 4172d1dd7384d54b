// attention.cuh: one query row of one head against its keys; see attention_limits.hpp for the order of folding.
//
// A block of four warps works on a tile of 64 keys: each warp scores 16 of them, lanes cutting the head's columns; then
// every thread adds up the tile's weighted values for its own columns. Keys that the row does not see are never read.
#pragma once

#include "attention_limits.hpp"
#include "cells.cuh"
#include "pages.cuh"

namespace tenon::cuda {

constexpr int kAttentionThreads = 128, kAttentionWarps = kAttentionThreads / int(kWarp);
constexpr int kTile = TENON_PAGE_TOKENS;
constexpr int kMaxOwn = int(kMaxValueDim) / kAttentionThreads;  // columns that one thread sums

struct AttentionShape {
  int32_t heads, per_kv, dim_k, dim_v, window;
  float scale, softcap;
  bool has_spans;
};

struct StepRows {
  const int32_t *index, *seq, *row_start, *span;
};

// What a row sees: positions begin … end, and of those after `index` or before `window_begin` only its own span's.
struct Sight {
  int64_t begin, end;  // inclusive
  int64_t index, window_begin;
  int32_t seq, span, first_row, last_row;
  int64_t first_index;  // position of the sequence's first row in the step
  const int32_t* spans;
  __device__ bool sees(int64_t p) const {
    if (p >= window_begin && p <= index) return true;
    if (span < 0) return false;
    const int64_t row = first_row + (p - first_index);
    return row >= first_row && row < last_row && spans[row] == span;
  }
};

__device__ inline Sight sight_of(const AttentionShape& shape, const StepRows& step, uint32_t r) {
  Sight s;
  s.index = step.index[r], s.seq = step.seq[r], s.spans = step.span;
  s.window_begin = shape.window > 0 && s.index - shape.window + 1 > 0 ? s.index - shape.window + 1 : 0;
  s.span = shape.has_spans && step.span ? step.span[r] : -1;
  s.begin = s.window_begin, s.end = s.index;
  s.first_row = s.last_row = 0, s.first_index = 0;
  if (s.span < 0) return s;
  s.first_row = step.row_start[s.seq], s.last_row = step.row_start[s.seq + 1];
  s.first_index = step.index[s.first_row];
  for (int32_t row = s.first_row; row < s.last_row; ++row) {
    if (s.spans[row] != s.span) continue;
    const int64_t p = step.index[row];
    if (p < s.begin) s.begin = p;
    if (p > s.end) s.end = p;
  }
  return s;
}

// A softmax in parts: largest score, sum of weights, and this thread's columns of the weighted sum.
struct Part {
  float largest, total;
  bool any;
  float sum[kMaxOwn];
};
__device__ inline void clear(Part& part) {
  part.largest = 0, part.total = 0, part.any = false;
  for (int i = 0; i < kMaxOwn; ++i) part.sum[i] = 0;
}
// A part without keys leaves the other bit-unchanged.
__device__ inline void fold(Part& into, const Part& part) {
  if (!part.any) return;
  if (!into.any) {
    into = part;
    return;
  }
  const float largest = fmaxf(into.largest, part.largest);
  const float safe = isinf(largest) && largest < 0 ? 0.0f : largest;  // both -inf: all weights are 0
  const float a = expf(into.largest - safe), b = expf(part.largest - safe);
  into.largest = largest;
  into.total = fmaf(part.total, b, into.total * a);
  for (int i = 0; i < kMaxOwn; ++i) into.sum[i] = fmaf(part.sum[i], b, into.sum[i] * a);
}

// Element types of the cache. kNone is for stores whose K and V differ, and for all types but floats.
template <Codec codec>
struct Cell;
template <>
struct Cell<Codec::kF32> {
  static __device__ float load(Codec, const uint8_t* row, int i) { return reinterpret_cast<const float*>(row)[i]; }
};
template <>
struct Cell<Codec::kF16> {
  static __device__ float load(Codec, const uint8_t* row, int i) {
    return half_to_float(reinterpret_cast<const uint16_t*>(row)[i]);
  }
};
template <>
struct Cell<Codec::kBf16> {
  static __device__ float load(Codec, const uint8_t* row, int i) {
    return bf16_to_float(reinterpret_cast<const uint16_t*>(row)[i]);
  }
};
template <>
struct Cell<Codec::kNone> {
  static __device__ float load(Codec codec, const uint8_t* row, int i) { return load_cell(codec, row, i); }
};

struct TileMemory {
  float score[kTile];
  int seen[kTile];
};

// One tile of keys into `part`. kPer × 32 ≥ dim_k: columns of the query that a lane holds.
template <Codec codec, int kPer>
__device__ void attend_tile(const AttentionShape& shape, const Pages& pages, Codec codec_k, Codec codec_v,
                            const Sight& sight, int64_t tile, int32_t kv_head, const float (&query)[kPer],
                            TileMemory& memory, Part& part) {
  const int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp);
  const int32_t page = pages.page(sight.seq, tile);
  __syncthreads();  // the tile before has been read
  for (int j = warp; j < kTile; j += kAttentionWarps) {
    const bool seen = sight.sees(tile * kTile + j);
    float score = 0;
    if (seen && page >= 0) {
      const uint8_t* key = pages.keys(page, kv_head) + j * pages.row_bytes_k;
      float product = 0;
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        const int c = lane + int(kWarp) * i;
        if (c < shape.dim_k) product = fmaf(query[i], Cell<codec>::load(codec_k, key, c), product);
      }
      score = warp_sum(product) * shape.scale;
      if (shape.softcap > 0) score = shape.softcap * tanhf(score / shape.softcap);
    } else if (seen) {
      score = quiet_nan();  // a key without a page: the fault shows in this row
    }
    if (lane == 0) memory.score[j] = score, memory.seen[j] = seen;
  }
  __syncthreads();
  // Each warp finds maximum and sum on its own, lane l looking at keys l and l + 32.
  const float minus_infinity = __uint_as_float(0xff800000u);
  const bool seen0 = memory.seen[lane], seen1 = memory.seen[lane + 32];
  const float score0 = memory.score[lane], score1 = memory.score[lane + 32];
  clear(part);
  part.any = __any_sync(kAll, seen0 || seen1);
  part.largest = warp_max(fmaxf(seen0 ? score0 : minus_infinity, seen1 ? score1 : minus_infinity));
  const float safe = isinf(part.largest) && part.largest < 0 ? 0.0f : part.largest;
  const float weight0 = seen0 ? expf(score0 - safe) : 0.0f, weight1 = seen1 ? expf(score1 - safe) : 0.0f;
  part.total = warp_sum(weight0 + weight1);
  __syncthreads();  // all warps have read the scores
  if (warp == 0) memory.score[lane] = weight0, memory.score[lane + 32] = weight1;
  __syncthreads();
  if (page < 0) return;
  const uint8_t* values = pages.values(page, kv_head);
  for (int j = 0; j < kTile; ++j) {
    if (!memory.seen[j]) continue;
    const float weight = memory.score[j];
    const uint8_t* row = values + j * pages.row_bytes_v;
#pragma unroll
    for (int i = 0; i < kMaxOwn; ++i) {
      const int c = int(threadIdx.x) + kAttentionThreads * i;
      if (c < shape.dim_v) part.sum[i] = fmaf(weight, Cell<codec>::load(codec_v, row, c), part.sum[i]);
    }
  }
}

// Tiles of one group, in ascending order.
template <Codec codec, int kPer>
__device__ void attend_group(const AttentionShape& shape, const Pages& pages, Codec codec_k, Codec codec_v,
                             const Sight& sight, int64_t group, int64_t keys, int32_t kv_head,
                             const float (&query)[kPer], TileMemory& memory, Part& total) {
  clear(total);
  const int64_t first = group * keys > sight.begin ? group * keys : sight.begin;
  const int64_t last = (group + 1) * keys - 1 < sight.end ? (group + 1) * keys - 1 : sight.end;
  for (int64_t tile = first / kTile; tile <= last / kTile; ++tile) {
    Part part;
    attend_tile<codec, kPer>(shape, pages, codec_k, codec_v, sight, tile, kv_head, query, memory, part);
    fold(total, part);
  }
}

// Grid (heads, rows): a block walks all groups of its row. Grid (heads, rows, groups): a block a group, whose part goes
// to the workspace [rows][heads][groups][dim_v + 4].
template <Codec codec, int kPer>
__global__ void __launch_bounds__(kAttentionThreads)
    attention(AttentionShape shape, View q, View o, Pages pages, Codec codec_k, Codec codec_v, StepRows step,
              float* workspace, int32_t max_groups, Live live) {
  __shared__ TileMemory memory;
  const int32_t head = int32_t(blockIdx.x), kv_head = head / shape.per_kv;
  const int lane = int(threadIdx.x % kWarp);
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const Sight sight = sight_of(shape, step, r);
    const int64_t keys = group_keys(sight.index + 1);
    float query[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int c = lane + int(kWarp) * i;
      query[i] = c < shape.dim_k ? *q.at(r, head * shape.dim_k + c) : 0.0f;
    }
    const int64_t first = sight.begin / keys, last = sight.end / keys;
    if (workspace) {
      const int64_t group = first + blockIdx.z;
      if (group > last) continue;
      Part part;
      attend_group<codec, kPer>(shape, pages, codec_k, codec_v, sight, group, keys, kv_head, query, memory, part);
      float* out =
          workspace + ((int64_t(r) * shape.heads + head) * max_groups + blockIdx.z) * partial_floats(shape.dim_v);
      for (int i = 0; i < kMaxOwn; ++i) {
        const int c = int(threadIdx.x) + kAttentionThreads * i;
        if (c < shape.dim_v) out[c] = part.sum[i];
      }
      if (threadIdx.x == 0) {
        out[shape.dim_v] = part.largest, out[shape.dim_v + 1] = part.total;
        out[shape.dim_v + 2] = part.any ? 1.0f : 0.0f;
      }
      continue;
    }
    Part total;
    clear(total);
    for (int64_t group = first; group <= last; ++group) {
      Part part;
      attend_group<codec, kPer>(shape, pages, codec_k, codec_v, sight, group, keys, kv_head, query, memory, part);
      fold(total, part);
    }
    for (int i = 0; i < kMaxOwn; ++i) {
      const int c = int(threadIdx.x) + kAttentionThreads * i;
      if (c < shape.dim_v) *o.at(r, head * shape.dim_v + c) = total.sum[i] / total.total;
    }
  }
}

// Enqueues the kernel for one element type of the cache, kNone for two; with a workspace it is split.
struct AttentionLaunch {
  AttentionShape shape;
  View q, o;
  Pages pages;
  Codec codec_k, codec_v;
  StepRows step;
  float* workspace;
  int32_t max_groups;
  dim3 grid;
  Live live;
};
template <Codec codec>
void enqueue_attention(const Launch& launch, const AttentionLaunch& a) {
  const auto with = [&](auto kernel) {
    enqueue(launch, "attention", kernel, a.grid, unsigned(kAttentionThreads), a.shape, a.q, a.o, a.pages, a.codec_k,
            a.codec_v, a.step, a.workspace, a.max_groups, a.live);
  };
  if (a.shape.dim_k <= 64) return with(attention<codec, 2>);
  if (a.shape.dim_k <= 128) return with(attention<codec, 4>);
  if (a.shape.dim_k <= 256) return with(attention<codec, 8>);
  if (a.shape.dim_k <= 512) return with(attention<codec, 16>);
  with(attention<codec, 18>);
}
// One translation unit each.
void enqueue_attention_f32(const Launch&, const AttentionLaunch&);
void enqueue_attention_half(const Launch&, const AttentionLaunch&);   // f16, bf16
void enqueue_attention_mixed(const Launch&, const AttentionLaunch&);  // K and V differ, or are no floats

}  // namespace tenon::cuda
