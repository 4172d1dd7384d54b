// linear.cuh: y = x Wᵀ in f32, for weights of any codec.
//
// A warp owns one output column for a few rows. Lane l takes columns 8l … 8l + 7 of every 256 of K, one after the other
// into one sum a row, and the lanes are added by a butterfly: the order depends on K alone, so a row has the same bits
// alone and among others.
#pragma once

#include "matrix.cuh"

namespace tenon::cuda {

constexpr unsigned kLinearWarps = 4;

// Columns k … k + 7 of a row, n of which exist, in the one form that products read: the packed one where there is one.
template <Codec codec>
__device__ inline void read_weights(const Matrix& w, int32_t row, int32_t k, int n, float* values) {
  if constexpr (has_packed_form(codec)) {
    read_packed<codec>({w.data, w.packed}, row, k, values);
  } else {
    read_eight<codec>(w, row, k, n, values);
  }
}

__device__ inline void load_inputs(const View& x, bool is_vector, int64_t r, int32_t k, int32_t n, float* values) {
  if (is_vector && n == kEight) {
    const float4* from = reinterpret_cast<const float4*>(x.at(r, k));
    const float4 a = from[0], b = from[1];
    values[0] = a.x, values[1] = a.y, values[2] = a.z, values[3] = a.w;
    values[4] = b.x, values[5] = b.y, values[6] = b.z, values[7] = b.w;
    return;
  }
  for (int i = 0; i < kEight; ++i) values[i] = i < n ? *x.at(r, k + i) : 0.0f;
}

template <Codec codec, int kRows>
__global__ void __launch_bounds__(kLinearWarps* kWarp) linear(View x, bool is_vector, Matrix w, View y, Live live) {
  const int32_t column = int32_t(blockIdx.x * kLinearWarps + threadIdx.x / kWarp);
  if (column >= w.rows) return;
  const int32_t lane = int32_t(threadIdx.x % kWarp);
  const uint32_t rows = live.get();
  for (uint32_t row0 = blockIdx.y * kRows; row0 < rows; row0 += gridDim.y * kRows) {
    float sum[kRows];
    for (int i = 0; i < kRows; ++i) sum[i] = 0;
    for (int32_t k = lane * kEight; k < w.cols; k += int32_t(kWarp) * kEight) {
      const int32_t n = w.cols - k < kEight ? w.cols - k : kEight;
      float weight[kEight];
      read_weights<codec>(w, column, k, n, weight);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (row0 + i >= rows) continue;
        float input[kEight];
        load_inputs(x, is_vector, row0 + i, k, n, input);
        for (int j = 0; j < kEight; ++j)
          if (j < n) sum[i] = fmaf(input[j], weight[j], sum[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (row0 + i >= rows) continue;
      const float total = warp_sum(sum[i]);
      if (lane == 0) *y.at(row0 + i, column) = total;
    }
  }
}

// The operands of the product with one weight.
struct LinearCall {
  View x, y;
  Matrix w;
  bool is_vector;
  Live live;
};
inline LinearCall linear_call(const OpPlan& plan, const Launch& launch, int index) {
  const tenon_weight& weight = launch.weight(index);
  const View x = view_of(launch.in(0));
  return {x, view_of(launch.out(index)), matrix_of(weight, plan.codec[index]), has_vectors(x), live_rows(plan, launch)};
}

// Enqueues the product with one weight, whose codec is in the list; false if it is not.
template <typename List>
bool launch_linear_of(const OpPlan& plan, const Launch& launch, int index) {
  const LinearCall call = linear_call(plan, launch, index);
  const unsigned columns = blocks_for(call.w.rows, kLinearWarps), threads = kLinearWarps * kWarp;
  return List::with(plan.codec[index], [&]<Codec codec>() {
    if (launch.rows() == 1) {
      enqueue(launch, "linear", linear<codec, 1>, dim3(columns, 1), threads, call.x, call.is_vector, call.w, call.y,
              call.live);
    } else {
      enqueue(launch, "linear", linear<codec, 8>, dim3(columns, row_blocks(blocks_for(launch.rows(), 8))), threads,
              call.x, call.is_vector, call.w, call.y, call.live);
    }
  });
}

// The product with one weight of any form.
void launch_linear_one(const OpPlan&, const Launch&, int index);

// One translation unit each, so that no compilation takes long.
bool launch_linear_float(const OpPlan&, const Launch&, int index);
bool launch_linear_32(const OpPlan&, const Launch&, int index);
bool launch_linear_256(const OpPlan&, const Launch&, int index);
bool launch_linear_any(const OpPlan&, const Launch&, int index);

}  // namespace tenon::cuda
