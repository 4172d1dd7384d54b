// Composites between an attention's projections and the attention: a block has a head of a query, key or value row. Its
// numbers are read once, pass through a bias, a norm and a rotation, and go to the query's row or to the head's page. Each
// step is the plain op's own function: the bits are those of the parts.
#include "head_chain.hpp"

#include "cells.cuh"
#include "pages.cuh"
#include "rope.cuh"
#include "row.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = kMaxChainHead / kFour;
constexpr int kPairsEach = int(kMaxChainHead / 2 / kThreads);

struct Path {
  Operand x, out;  // out: of queries
  Table bias, weight;
  NormShape norm;
  RopeShape rope;
  Angles angles;
  int32_t heads, dim;
  bool has_norm;
};
struct Heads {
  Path path[kHeadPaths];
  Pages pages;
  Codec codec_k, codec_v;
  const int32_t *seq, *index;
};

struct HeadMemory {
  float number[kMaxChainHead];
  float part[kMaxThreads / kWarp];
};

// The head's numbers, normed, are in memory.number behind it.
__device__ void load_head(const Path& path, int64_t r, int32_t head, HeadMemory& memory) {
  const int32_t begin = head * path.dim, end = begin + path.dim, c = begin + int32_t(threadIdx.x) * kFour;
  Four v, w = {};
  load_four(path.x, r, c, end, v);
  if (path.bias.data) {
    load_four(path.bias, c, end, w);
#pragma unroll
    for (int i = 0; i < kFour; ++i) v[i] += w[i];
  }
  if (path.has_norm) {
    if (path.weight.data) load_four(path.weight, c - begin, path.dim, w);
    const float factor = norm_factor(path.norm, block_sum(add_squares(0, v), memory.part));
#pragma unroll
    for (int i = 0; i < kFour; ++i) v[i] = normed(v[i], factor, path.weight.data, w[i]);
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i)
    if (c + i < end) memory.number[c - begin + i] = v[i];
}

// Begin of the head's row in the cache; null where there is no place for it.
__device__ uint8_t* cache_row(const Heads& heads, int64_t r, int32_t head, bool is_value) {
  const int32_t position = heads.index[r];
  if (position < 0) return nullptr;
  const int32_t page = heads.pages.page(heads.seq[r], position / TENON_PAGE_TOKENS), slot = position % TENON_PAGE_TOKENS;
  if (page < 0) return nullptr;
  return is_value ? heads.pages.values(page, head) + slot * heads.pages.row_bytes_v
                  : heads.pages.keys(page, head) + slot * heads.pages.row_bytes_k;
}

__device__ void store_head(const Heads& heads, int which, int64_t r, int32_t head, const HeadMemory& memory) {
  const Path& path = heads.path[which];
  if (which == kQueryPath) {
    const int32_t begin = head * path.dim, c = int32_t(threadIdx.x) * kFour;
    Four v;
#pragma unroll
    for (int i = 0; i < kFour; ++i) v[i] = c + i < path.dim ? memory.number[c + i] : 0.0f;
    store_four(path.out, r, begin + c, begin + path.dim, v);
    return;
  }
  uint8_t* row = cache_row(heads, r, head, which == kValuePath);
  if (!row) return;
  const int32_t lane = int32_t(threadIdx.x % kWarp);
  for (int32_t c = int32_t(threadIdx.x) - lane; c < path.dim; c += int32_t(kThreads)) {
    const int32_t n = path.dim - c < 32 ? path.dim - c : 32;
    store_cells(which == kValuePath ? heads.codec_v : heads.codec_k, row, c, n, lane < n ? memory.number[c + lane] : 0.0f);
  }
}

__global__ void __launch_bounds__(kThreads) head_chain(const __grid_constant__ Heads heads, Live live) {
  __shared__ HeadMemory memory;
  int32_t head = int32_t(blockIdx.x);
  int which = 0;
  while (head >= heads.path[which].heads) head -= heads.path[which++].heads;
  const Path& path = heads.path[which];
  const int32_t line = int32_t(threadIdx.x) * (128 / 4);
  if (path.weight.data && line < path.dim) prefetch_line(static_cast<const uint8_t*>(path.weight.data) + line);
  if (path.angles.inv_freq && line < path.rope.pairs) prefetch_line(static_cast<const uint8_t*>(path.angles.inv_freq) + line);
  wait_for_launch_before();
  let_next_launch_begin();
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Turn turn[kPairsEach] = {};
    if (path.angles.inv_freq) {
#pragma unroll
      for (int k = 0; k < kPairsEach; ++k)
        if (const int32_t i = int32_t(threadIdx.x + unsigned(k) * kThreads); i < path.rope.pairs)
          turn[k] = turn_of(path.rope, path.angles, r, i);
    }
    __syncthreads();  // the row before has been stored
    load_head(path, r, head, memory);
    __syncthreads();
    if (path.angles.inv_freq) {
#pragma unroll
      for (int k = 0; k < kPairsEach; ++k)
        if (const int32_t i = int32_t(threadIdx.x + unsigned(k) * kThreads); i < path.rope.pairs) {
          float &first = memory.number[first_of(path.rope, i)], &second = memory.number[second_of(path.rope, i)];
          const float a = first, b = second;
          first = turn[k].first(a, b), second = turn[k].second(a, b);
        }
      __syncthreads();
    }
    store_head(heads, which, r, head, memory);
  }
}

}  // namespace

void launch_head_chain(const HeadPlan& plan, const Launch& launch) {
  Heads heads = {};
  unsigned blocks = 0;
  const auto table = [&](int32_t weight, Codec codec) {
    return weight < 0 ? Table{} : table_of(launch.weight(weight), codec);
  };
  for (int i = 0; i < kHeadPaths; ++i) {
    const HeadPath& from = plan.path[i];
    Path& path = heads.path[i];
    blocks += unsigned(path.heads = from.heads);
    if (!from.heads) continue;
    path.x = operand_of(launch.in(from.in));
    if (from.out >= 0) path.out = operand_of(launch.out(from.out));
    path.bias = table(from.bias, from.bias_codec), path.weight = table(from.weight, from.weight_codec);
    path.dim = from.dim, path.has_norm = from.has_norm;
    path.norm = norm_shape(from.norm, from.dim);
    if (from.frequencies < 0) continue;
    path.rope = rope_shape(from.rope, path.x.view.cols);
    path.angles = {array<void>(launch.weight(from.frequencies).plane[0]), from.frequency_codec,
                   array<int32_t>(launch.step().position), int64_t(launch.step().max_rows)};
  }
  if (launch.args.n_store) heads.pages = pages_of(plan.op, launch);
  heads.codec_k = plan.op.codec[0], heads.codec_v = plan.op.codec[1];
  heads.seq = array<int32_t>(launch.step().seq), heads.index = array<int32_t>(launch.step().index);
  const Live live = {array<uint32_t>(launch.step().n_rows), launch.rows()};
  enqueue_early(launch, "head chain", head_chain, dim3(blocks, row_blocks(launch.rows())), kThreads, heads, live);
}

}  // namespace tenon::cuda
