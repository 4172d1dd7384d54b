// experts_tile.cuh: expert_ffn for prompts: 64 slots of one expert by 64 columns a block. The products' order is that
// of `linear` for prompts: ascending k, 32 at a time into a sum of their own.
#pragma once

#include "experts.cuh"
#include "glu.cuh"
#include "linear_tile.cuh"

namespace tenon::cuda {

static_assert(kExpertTile == kTileSide);

struct ExpertTile {
  int32_t expert, first, end;  // places
};

// total[4][4] of a thread: rows own_row …, columns column0 + own_column …. row_of(i): the row of x for the tile's row
// i, below `rows`.
template <Codec codec, typename RowOf>
__device__ void expert_tile(const View& x, bool is_vector, const RowOf& row_of, int32_t rows, const Matrix& w,
                            int32_t column0, LinearTileMemory& memory, float (&total)[kOwnSide][kOwnSide]) {
  const int thread = int(threadIdx.x), side = thread % kTileSide, k_begin = thread / kTileSide * kEight;
  const int own_column = thread % 16 * kOwnSide, own_row = thread / 16 * kOwnSide;
#pragma unroll
  for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
    for (int j = 0; j < kOwnSide; ++j) total[i][j] = 0;
  for (int32_t k0 = 0; k0 < w.cols; k0 += kTileK) {
    const int32_t k = k0 + k_begin, left = w.cols - k, n = left < 0 ? 0 : left < kEight ? left : kEight;
    float inputs[kEight] = {}, weights[kEight] = {};
    if (n > 0 && side < rows) load_inputs(x, is_vector, row_of(side), k, n, inputs);
    if (n > 0 && column0 + side < w.rows) read_weights<codec>(w, column0 + side, k, n, weights);
    __syncthreads();  // the part before has been used
    for (int i = 0; i < kEight; ++i) {
      memory.x[k_begin + i][side] = inputs[i];
      memory.w[k_begin + i][side] = weights[i];
    }
    __syncthreads();
    const int steps = w.cols - k0 < kTileK ? w.cols - k0 : kTileK;
    float part[kOwnSide][kOwnSide] = {};
    for (int step = 0; step < steps; ++step) {
      float a[kOwnSide], b[kOwnSide];
      load_four(&memory.x[step][own_row], a), load_four(&memory.w[step][own_column], b);
#pragma unroll
      for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
        for (int j = 0; j < kOwnSide; ++j) part[i][j] = fmaf(a[i], b[j], part[i][j]);
    }
#pragma unroll
    for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
      for (int j = 0; j < kOwnSide; ++j) total[i][j] += part[i][j];
  }
}

// Hidden rows by place. Grid (columns / 64, tiles).
template <Codec codec>
__global__ void __launch_bounds__(kTileThreads)
    expert_tile_hidden(const __grid_constant__ Experts experts, View x, bool is_vector, const ExpertTile* tiles,
                       const int32_t* n_tiles, const int32_t* pair, float* hidden) {
  __shared__ LinearTileMemory memory;
  const int32_t column0 = int32_t(blockIdx.x) * kTileSide;
  for (int32_t t = int32_t(blockIdx.y); t < *n_tiles; t += int32_t(gridDim.y)) {
    const ExpertTile tile = tiles[t];
    const int32_t rows = tile.end - tile.first;
    const auto row_of = [&](int i) { return int64_t(pair[tile.first + i] / experts.top_k); };
    float gate[kOwnSide][kOwnSide], up[kOwnSide][kOwnSide];
    expert_tile<codec>(x, is_vector, row_of, rows, experts.gate.matrix(tile.expert), column0, memory, gate);
    expert_tile<codec>(x, is_vector, row_of, rows, experts.up.matrix(tile.expert), column0, memory, up);
    const int own_column = int(threadIdx.x) % 16 * kOwnSide, own_row = int(threadIdx.x) / 16 * kOwnSide;
#pragma unroll
    for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
      for (int j = 0; j < kOwnSide; ++j) {
        const int32_t row = own_row + i, column = column0 + own_column + j;
        if (row >= rows || column >= experts.hidden) continue;
        hidden[int64_t(tile.first + row) * experts.hidden + column] =
            glu_of(experts.activation, experts.limit, experts.alpha, experts.gate.times_factor(gate[i][j], tile.expert),
                   experts.up.times_factor(up[i][j], tile.expert));
      }
  }
}

// Slots by place.
template <Codec codec>
__global__ void __launch_bounds__(kTileThreads)
    expert_tile_down(const __grid_constant__ Experts experts, const float* hidden, const ExpertTile* tiles,
                     const int32_t* n_tiles, float* slots) {
  __shared__ LinearTileMemory memory;
  const int32_t column0 = int32_t(blockIdx.x) * kTileSide;
  const View x = {reinterpret_cast<uint8_t*>(const_cast<float*>(hidden)), int64_t(experts.hidden) * 4, 0,
                  experts.hidden, experts.hidden};
  for (int32_t t = int32_t(blockIdx.y); t < *n_tiles; t += int32_t(gridDim.y)) {
    const ExpertTile tile = tiles[t];
    const int32_t rows = tile.end - tile.first;
    float total[kOwnSide][kOwnSide];
    expert_tile<codec>(
        x, experts.hidden % 4 == 0, [&](int i) { return int64_t(tile.first + i); }, rows,
        experts.down.matrix(tile.expert), column0, memory, total);
    const int own_column = int(threadIdx.x) % 16 * kOwnSide, own_row = int(threadIdx.x) / 16 * kOwnSide;
#pragma unroll
    for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
      for (int j = 0; j < kOwnSide; ++j)
        if (own_row + i < rows && column0 + own_column + j < experts.cols)
          slots[int64_t(tile.first + own_row + i) * experts.cols + column0 + own_column + j] =
              experts.down.times_factor(total[i][j], tile.expert);
  }
}

template <typename List>
bool enqueue_experts_tile_of(const Launch& launch, const ExpertLaunch& e, Codec codec, bool is_down) {
  const auto* tiles = reinterpret_cast<const ExpertTile*>(e.workspace + e.at.tiles);
  const auto* n_tiles = reinterpret_cast<const int32_t*>(e.workspace + e.at.n_tiles);
  const auto* pair = reinterpret_cast<const int32_t*>(e.workspace + e.at.pair);
  float* hidden = reinterpret_cast<float*>(e.workspace + e.at.hidden);
  const unsigned most = row_blocks(max_expert_tiles(int64_t(launch.rows()) * e.experts.top_k, e.experts.n_expert));
  return List::with(codec, [&]<Codec one>() {
    if (is_down) {
      enqueue(launch, "expert_ffn: down", expert_tile_down<one>, dim3(blocks_for(e.experts.cols, kTileSide), most),
              unsigned(kTileThreads), e.experts, static_cast<const float*>(hidden), tiles, n_tiles,
              reinterpret_cast<float*>(e.workspace + e.at.slots));
    } else {
      enqueue(launch, "expert_ffn: hidden", expert_tile_hidden<one>,
              dim3(blocks_for(e.experts.hidden, kTileSide), most), unsigned(kTileThreads), e.experts, e.x, e.is_vector,
              tiles, n_tiles, pair, hidden);
    }
  });
}

}  // namespace tenon::cuda
