// linear_tile.cuh: y = x Wᵀ in f32 for prompts: a block computes 64 rows by 64 columns, and decodes each weight once
// for its 64 rows.
//
// An output's products are added in ascending k, 32 at a time into a sum of their own, which is then added to the
// total. So a row has the same bits wherever it lies in a tile, and few additions round at the total's size.
#pragma once

#include "linear.cuh"

namespace tenon::cuda {

constexpr int kTileSide = 64, kTileK = 32, kTileThreads = 256;
constexpr int kOwnSide = 4;                 // a thread computes 4 by 4 outputs
constexpr int kTileStride = kTileSide + 4;  // floats of a row in shared memory, for vector loads without conflicts

struct LinearTileMemory {
  alignas(16) float x[kTileK][kTileStride];
  alignas(16) float w[kTileK][kTileStride];
};

__device__ inline void load_four(const float* from, float* values) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
}

template <Codec codec>
__global__ void __launch_bounds__(kTileThreads) linear_tile(View x, bool is_vector, Matrix w, View y, Live live) {
  __shared__ LinearTileMemory memory;
  const int thread = int(threadIdx.x);
  const int side = thread % kTileSide, k_begin = thread / kTileSide * kEight;  // what this thread brings
  const int own_column = thread % 16 * kOwnSide, own_row = thread / 16 * kOwnSide;
  const int32_t column0 = int32_t(blockIdx.x) * kTileSide;
  const uint32_t rows = live.get();
  for (uint32_t row0 = blockIdx.y * kTileSide; row0 < rows; row0 += gridDim.y * kTileSide) {
    float total[kOwnSide][kOwnSide] = {};
    for (int32_t k0 = 0; k0 < w.cols; k0 += kTileK) {
      const int32_t k = k0 + k_begin, left = w.cols - k, n = left < 0 ? 0 : left < kEight ? left : kEight;
      float inputs[kEight] = {}, weights[kEight] = {};
      if (n > 0 && row0 + side < rows) load_inputs(x, is_vector, row0 + side, k, n, inputs);
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
#pragma unroll
    for (int i = 0; i < kOwnSide; ++i)
#pragma unroll
      for (int j = 0; j < kOwnSide; ++j)
        if (row0 + own_row + i < rows && column0 + own_column + j < w.rows)
          *y.at(row0 + own_row + i, column0 + own_column + j) = total[i][j];
  }
}

// Enqueues the product with one weight, whose codec is in the list; false if it is not.
template <typename List>
bool launch_linear_tile_of(const OpPlan& plan, const Launch& launch, int index) {
  const LinearCall call = linear_call(plan, launch, index);
  return List::with(plan.codec[index], [&]<Codec codec>() {
    enqueue(launch, "linear", linear_tile<codec>,
            dim3(blocks_for(call.w.rows, kTileSide), row_blocks(blocks_for(launch.rows(), kTileSide))),
            unsigned(kTileThreads), call.x, call.is_vector, call.w, call.y, call.live);
  });
}

// One translation unit each.
bool launch_linear_tile_float(const OpPlan&, const Launch&, int index);
bool launch_linear_tile_32(const OpPlan&, const Launch&, int index);
bool launch_linear_tile_256(const OpPlan&, const Launch&, int index);
bool launch_linear_tile_any(const OpPlan&, const Launch&, int index);

}  // namespace tenon::cuda
