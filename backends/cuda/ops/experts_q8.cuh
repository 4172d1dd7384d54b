// experts_q8.cuh: expert_ffn for few rows from packed weights and rows encoded as q8_32, by integer products on tensor
// cores. Hidden rows are held as q8_32 too.
//
// A block computes 32 hidden numbers of a pair, or 16 outputs of a row. Chunks of 256 columns are shared among warps by
// K alone: each adds its chunks in ascending order, then warps are added in ascending order, then slots as docs/ops.md
// says. Nothing depends on other rows.
#pragma once

#include "experts.cuh"
#include "glu.cuh"
#include "linear_q8.cuh"

namespace tenon::cuda {

constexpr int kHiddenParts = 4, kDownParts = 2, kMaxDownWarps = 16;
constexpr int kHiddenColumns = 32;  // of a block: a group of q8_32

// Warps that share the chunks of one product.
TENON_BOTH_SIDES constexpr int expert_parts(int32_t chunks, int most) {
  const int32_t each = (chunks + most - 1) / most;
  return int((chunks + each - 1) / each);
}

// Sixteen outputs of one row: chunks first, first + step …, to sums[16].
template <Codec codec>
__device__ __forceinline__ void row_product(const Packed& w, int32_t tile, const Q8Rows& x, uint32_t row, int32_t first,
                                            int32_t step, float* sums) {
  const int lane = int(threadIdx.x % kWarp);
  if (first >= w.shape.chunks) {
    if (lane % 4 == 0) sums[lane / 4] = 0, sums[lane / 4 + 8] = 0;
    return;
  }
  const OneRow<codec> own_row(x, row, lane);
  float acc[2] = {};
  ChunkCodes<codec> codes;
  ChunkScales<codec> scales;
  ChunkOfOne<codec> own;
  const auto load = [&](int32_t index, ChunkCodes<codec>& own_codes, ChunkScales<codec>& own_scales, ChunkOfOne<codec>& of_x) {
    const InGlobal chunk = {w.chunk(tile, index)};
    if (w.shape.steps(index) == kChunkCols / kStepCols) {
      own_codes.template load<true>(chunk, lane, 0);
    } else {
      own_codes.template load<false>(chunk, lane, w.shape.last_steps);
    }
    own_scales.load(chunk, lane), own_row.load(index, of_x);
  };
  load(first, codes, scales, own);
  for (int32_t index = first; index < w.shape.chunks; index += step) {
    const int32_t next = index + step;
    ChunkCodes<codec> next_codes;
    ChunkScales<codec> next_scales;
    ChunkOfOne<codec> next_own = {};
    if (next < w.shape.chunks) load(next, next_codes, next_scales, next_own);
    add_chunk_of_one<codec>(codes, scales, InGlobal{w.chunk(tile, index)}, own, lane, acc);
    codes = next_codes, scales = next_scales, own = next_own;
  }
  constexpr float kUnit = 1.0f / float(1 << packed_form(codec).low_bit());
  if (lane % 4 == 0) sums[lane / 4] = acc[0] * kUnit, sums[lane / 4 + 8] = acc[1] * kUnit;
}

// A warp's 32 numbers as group `group` of a row in q8_32, a lane each.
__device__ inline void store_q8_group(uint8_t* row, const Q8Rows& rows, int32_t group, float value) {
  const int lane = int(threadIdx.x % kWarp);
  const bool is_finite = __all_sync(kAll, isfinite(value));
  const float largest = warp_max(fabsf(value));
  const bool is_zero = !is_finite || largest == 0;
  const float inverse = is_zero ? 0.0f : 127.0f / largest;
  float rounded = is_zero ? 0.0f : rintf(value * inverse);
  if (rounded > 127.0f) rounded = 127.0f;
  if (rounded < -127.0f) rounded = -127.0f;
  int sum = int(rounded);  // over the 16 lanes of this half
  for (unsigned step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, int(step));
  reinterpret_cast<int8_t*>(row)[group * 32 + lane] = int8_t(rounded);
  if (lane == 0) reinterpret_cast<float*>(row + rows.scale_at)[group] = is_finite ? largest / 127.0f : quiet_nan();
  if (lane % 16 == 0) reinterpret_cast<int16_t*>(row + rows.sum_at)[group * 2 + lane / 16] = int16_t(sum);
}

// Grid (hidden / 32, pairs); warps: gate's two tiles, then up's, `parts` each.
template <Codec codec>
__global__ void __launch_bounds__(4 * kHiddenParts * kWarp)
    expert_hidden_q8(const __grid_constant__ Experts experts, Q8Rows x, Ids ids, int32_t parts, Q8Rows hidden,
                     Live live) {
  __shared__ float sums[4 * kHiddenParts][kTileRows];
  wait_for_launch_before();
  const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp), product = warp / parts;
  const int32_t tile = int32_t(blockIdx.x) * 2 + product % 2, column = int32_t(blockIdx.x) * kHiddenColumns + lane;
  const int64_t pairs = int64_t(live.get()) * experts.top_k;
  for (int64_t pair = blockIdx.y; pair < pairs; pair += gridDim.y) {
    const int32_t id = ids.of(pair);
    if (!experts.has(id) || !experts.is_here(id)) continue;  // the fold knows
    const Matrix w = product < 2 ? experts.gate.matrix(id) : experts.up.matrix(id);
    if (tile < w.packed.tiles())
      row_product<codec>({w.data, w.packed}, tile, x, uint32_t(pair / experts.top_k), warp % parts, parts, sums[warp]);
    __syncthreads();
    if (warp == 0) {
      float value = 0;
      if (column < experts.hidden) {
        const int at = lane / kTileRows * parts, r = lane % kTileRows;
        float gate = sums[at][r], up = sums[2 * parts + at][r];
        for (int i = 1; i < parts; ++i) gate += sums[at + i][r], up += sums[2 * parts + at + i][r];
        value = glu_of(experts.activation, experts.limit, experts.alpha, experts.gate.times_factor(gate, id),
                       experts.up.times_factor(up, id));
      }
      store_q8_group(const_cast<uint8_t*>(hidden.data) + pair * hidden.row_bytes, hidden, int32_t(blockIdx.x), value);
    }
    __syncthreads();  // the sums have been read
  }
}

// Grid (columns / 16, rows); a unit is a part of a slot's product, and units go to the warps in turns.
template <Codec codec>
__global__ void __launch_bounds__(kMaxDownWarps* kWarp)
    expert_down_q8(const __grid_constant__ Experts experts, Q8Rows hidden, Ids ids, int32_t parts, View weights, View y,
                   Live live) {
  __shared__ float sums[kMaxTopK * kDownParts][kTileRows];
  wait_for_launch_before();
  const int warp = int(threadIdx.x / kWarp), warps = int(blockDim.x / kWarp);
  const int32_t tile = int32_t(blockIdx.x), column = tile * kTileRows + int32_t(threadIdx.x);
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const int64_t pair0 = int64_t(r) * experts.top_k;
    for (int unit = warp; unit < experts.top_k * parts; unit += warps) {
      const int64_t pair = pair0 + unit / parts;
      const int32_t id = ids.of(pair);
      if (!experts.has(id) || !experts.is_here(id)) continue;
      const Matrix w = experts.down.matrix(id);
      row_product<codec>({w.data, w.packed}, tile, hidden, uint32_t(pair), unit % parts, parts, sums[unit]);
    }
    __syncthreads();
    if (threadIdx.x < unsigned(kTileRows) && column < experts.cols) {
      float sum = 0;
      for (int32_t slot = 0; slot < experts.top_k; ++slot) {
        const int32_t id = ids.of(pair0 + slot);
        const bool is_known = experts.has(id), is_here = is_known && experts.is_here(id);
        float value = is_known ? 0.0f : quiet_nan();
        if (is_here) {
          value = sums[slot * parts][threadIdx.x];
          for (int i = 1; i < parts; ++i) value += sums[slot * parts + i][threadIdx.x];
          value = experts.down.times_factor(value, id);
        }
        if (experts.combine) *y.at(r, slot * experts.cols + column) = value;
        if (!experts.combine && (is_here || !is_known)) sum += *weights.at(r, slot) * value;
      }
      if (!experts.combine) *y.at(r, column) = sum;
    }
    __syncthreads();  // the sums have been read
  }
}

struct ExpertLaunchQ8 {
  Experts experts;
  Q8Rows x, hidden;
  View weights, y;
  Ids ids;
  Live live;
};
template <typename List>
bool enqueue_experts_q8_of(const Launch& launch, const ExpertLaunchQ8& e, Codec codec, bool is_down) {
  const unsigned pairs = row_blocks(int64_t(launch.rows()) * e.experts.top_k);
  return List::with(codec, [&]<Codec one>() {
    if (is_down) {
      const int parts = expert_parts(e.experts.down.first.packed.chunks, kDownParts), units = e.experts.top_k * parts;
      enqueue_early(launch, "expert_ffn: down", expert_down_q8<one>,
                    dim3(blocks_for(e.experts.cols, kTileRows), row_blocks(launch.rows())),
                    unsigned(units < kMaxDownWarps ? units : kMaxDownWarps) * kWarp, e.experts, e.hidden, e.ids,
                    int32_t(parts), e.weights, e.y, e.live);
    } else {
      const int parts = expert_parts(e.experts.gate.first.packed.chunks, kHiddenParts);
      enqueue_early(launch, "expert_ffn: hidden", expert_hidden_q8<one>,
                    dim3(blocks_for(e.experts.hidden, kHiddenColumns), pairs), unsigned(4 * parts) * kWarp, e.experts,
                    e.x, e.ids, int32_t(parts), e.hidden, e.live);
    }
  });
}
bool enqueue_experts_q8_32(const Launch&, const ExpertLaunchQ8&, Codec codec, bool is_down);
bool enqueue_experts_q8_256(const Launch&, const ExpertLaunchQ8&, Codec codec, bool is_down);

}  // namespace tenon::cuda
