// experts_decode.cuh: expert_ffn for few rows: every pair on its own. The products' order is that of `linear` in a
// decode step: lane l takes columns 8l … 8l + 7 of every 256, then a butterfly.
#pragma once

#include "experts.cuh"
#include "glu.cuh"
#include "linear.cuh"

namespace tenon::cuda {

constexpr unsigned kHiddenWarps = 4, kDownWarps = 8;
constexpr int kDownColumns = 4;  // outputs of a block

// Hidden number `column` of a pair: a warp each.
template <Codec codec>
__global__ void __launch_bounds__(kHiddenWarps* kWarp)
    expert_hidden(const __grid_constant__ Experts experts, View x, bool is_vector, Ids ids, float* hidden, Live live) {
  const int32_t column = int32_t(blockIdx.x * kHiddenWarps + threadIdx.x / kWarp);
  if (column >= experts.hidden) return;
  const int32_t lane = int32_t(threadIdx.x % kWarp), cols = experts.gate.first.cols;
  const int64_t pairs = int64_t(live.get()) * experts.top_k;
  for (int64_t pair = blockIdx.y; pair < pairs; pair += gridDim.y) {
    const int32_t id = ids.of(pair);
    if (!experts.has(id) || !experts.is_here(id)) continue;  // the fold knows
    const Matrix gate = experts.gate.matrix(id), up = experts.up.matrix(id);
    float g = 0, u = 0;
    for (int32_t k = lane * kEight; k < cols; k += int32_t(kWarp) * kEight) {
      const int32_t n = cols - k < kEight ? cols - k : kEight;
      float input[kEight], weight[kEight];
      load_inputs(x, is_vector, pair / experts.top_k, k, n, input);
      read_weights<codec>(gate, column, k, n, weight);
      for (int j = 0; j < kEight; ++j)
        if (j < n) g = fmaf(input[j], weight[j], g);
      read_weights<codec>(up, column, k, n, weight);
      for (int j = 0; j < kEight; ++j)
        if (j < n) u = fmaf(input[j], weight[j], u);
    }
    g = experts.gate.times_factor(warp_sum(g), id), u = experts.up.times_factor(warp_sum(u), id);
    if (lane == 0)
      hidden[pair * experts.hidden + column] = glu_of(experts.activation, experts.limit, experts.alpha, g, u);
  }
}

// Four outputs of a row: the slots go to the warps in turns, and are folded in ascending order.
template <Codec codec>
__global__ void __launch_bounds__(kDownWarps* kWarp)
    expert_down(const __grid_constant__ Experts experts, const float* hidden, Ids ids, View weights, View y,
                Live live) {
  __shared__ float part[kMaxTopK][kDownColumns];
  __shared__ bool counts[kMaxTopK];
  const int32_t column0 = int32_t(blockIdx.x) * kDownColumns, top_k = experts.top_k;
  const int32_t lane = int32_t(threadIdx.x % kWarp), warp = int32_t(threadIdx.x / kWarp);
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    for (int32_t slot = warp; slot < top_k; slot += int32_t(kDownWarps)) {
      const int64_t pair = int64_t(r) * top_k + slot;
      const int32_t id = ids.of(pair);
      const bool is_known = experts.has(id), is_here = is_known && experts.is_here(id);
      float sum[kDownColumns];
      for (int j = 0; j < kDownColumns; ++j) sum[j] = 0;
      if (is_here) {
        const Matrix down = experts.down.matrix(id);
        const View row = {reinterpret_cast<uint8_t*>(const_cast<float*>(hidden)), int64_t(experts.hidden) * 4, 0,
                          experts.hidden, experts.hidden};
        for (int32_t k = lane * kEight; k < experts.hidden; k += int32_t(kWarp) * kEight) {
          const int32_t n = experts.hidden - k < kEight ? experts.hidden - k : kEight;
          float input[kEight];
          load_inputs(row, experts.hidden % 4 == 0, pair, k, n, input);
#pragma unroll
          for (int j = 0; j < kDownColumns; ++j) {
            if (column0 + j >= experts.cols) continue;
            float weight[kEight];
            read_weights<codec>(down, column0 + j, k, n, weight);
            for (int i = 0; i < kEight; ++i)
              if (i < n) sum[j] = fmaf(input[i], weight[i], sum[j]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kDownColumns; ++j) {
        const float total = warp_sum(sum[j]);
        if (lane == 0) part[slot][j] = is_here ? experts.down.times_factor(total, id) : is_known ? 0.0f : quiet_nan();
      }
      if (lane == 0) counts[slot] = is_here || !is_known;
    }
    __syncthreads();
    const int32_t column = column0 + int32_t(threadIdx.x);
    if (threadIdx.x < kDownColumns && column < experts.cols) {
      float sum = 0;
      for (int32_t slot = 0; slot < top_k; ++slot) {
        const float value = part[slot][threadIdx.x];
        if (experts.combine) *y.at(r, slot * experts.cols + column) = value;
        if (!experts.combine && counts[slot]) sum += *weights.at(r, slot) * value;
      }
      if (!experts.combine) *y.at(r, column) = sum;
    }
    __syncthreads();  // the slots have been read
  }
}

template <typename List>
bool enqueue_experts_decode_of(const Launch& launch, const ExpertLaunch& e, Codec codec, bool is_down) {
  float* hidden = reinterpret_cast<float*>(e.workspace);
  return List::with(codec, [&]<Codec one>() {
    if (is_down) {
      enqueue(launch, "expert_ffn: down", expert_down<one>,
              dim3(blocks_for(e.experts.cols, kDownColumns), row_blocks(launch.rows())), kDownWarps * kWarp, e.experts,
              hidden, e.ids, e.weights, e.y, e.live);
    } else {
      enqueue(launch, "expert_ffn: hidden", expert_hidden<one>,
              dim3(blocks_for(e.experts.hidden, kHiddenWarps), row_blocks(int64_t(launch.rows()) * e.experts.top_k)),
              kHiddenWarps * kWarp, e.experts, e.x, e.is_vector, e.ids, hidden, e.live);
    }
  });
}

}  // namespace tenon::cuda
