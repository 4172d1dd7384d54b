// row.cuh: a row's columns in registers, four a vector. What the plain kernels of norm, encode and the elementwise ops share
// with the composites made of them, so that both give the same bits.
#pragma once

#include "glu.cuh"
#include "row_shape.hpp"

namespace tenon::cuda {

using Four = float[kFour];

// --- Operands ---------------------------------------------------------------------------------------------------------

struct Operand {
  View view;
  bool has_vectors;
};
inline Operand operand_of(const tenon_view& v) {
  const View view = view_of(v);
  return {view, has_vectors(view)};
}

// Walks over columns c, c + 1, … of row r, over the borders of a view's groups.
struct ColumnWalk {
  uint8_t* group;  // begin
  int32_t rest;    // column in it
  __device__ ColumnWalk(const View& x, int64_t r, int32_t c) : group(x.data + r * x.row_bytes), rest(c) {
    if (x.width == x.cols) return;
    const int32_t at = c / x.width;
    group += at * x.group_bytes, rest -= at * x.width;
  }
  __device__ float* here() const { return reinterpret_cast<float*>(group) + rest; }
  __device__ void next(const View& x) {
    if (++rest == x.width) rest = 0, group += x.group_bytes;
  }
};

// Columns c … c + 3 of row r, those from `end` on as 0.
__device__ inline void load_four(const Operand& x, int64_t r, int32_t c, int32_t end, Four& out) {
  ColumnWalk walk(x.view, r, c);
  if (x.has_vectors && c + kFour <= end) {
    const float4 v = *reinterpret_cast<const float4*>(walk.here());
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    out[i] = c + i < end ? *walk.here() : 0.0f;
    walk.next(x.view);
  }
}

__device__ inline void store_four(const Operand& y, int64_t r, int32_t c, int32_t end, const Four& v) {
  ColumnWalk walk(y.view, r, c);
  if (y.has_vectors && c + kFour <= end) {
    *reinterpret_cast<float4*>(walk.here()) = {v[0], v[1], v[2], v[3]};
    return;
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    if (c + i < end) *walk.here() = v[i];
    walk.next(y.view);
  }
}

// A small table of floats, such as a norm's weight.
struct Table {
  const void* data;  // null: none
  Codec codec;
  bool is_one;  // one number for all columns
};
inline Table table_of(const tenon_weight& w, Codec codec) {
  return {reinterpret_cast<const void*>(w.plane[0]), codec, w.rows * w.cols == 1};
}
// Entries i … i + 3, those from `end` on as 0.
__device__ inline void load_four(const Table& w, int32_t i, int32_t end, Four& out) {
  if (w.codec == Codec::kF32 && i + kFour <= end && i % kFour == 0 && reinterpret_cast<uint64_t>(w.data) % 16 == 0) {
    const float4 v = *reinterpret_cast<const float4*>(static_cast<const float*>(w.data) + i);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    return;
  }
#pragma unroll
  for (int k = 0; k < kFour; ++k) out[k] = i + k < end ? load_float(w.codec, w.data, i + k) : 0.0f;
}

// --- norm -------------------------------------------------------------------------------------------------------------

__device__ inline float add_squares(float sum, const Four& v) {
#pragma unroll
  for (int i = 0; i < kFour; ++i) sum = fmaf(v[i], v[i], sum);
  return sum;
}

// Sum over the block by butterflies, over each warp and then over the warps; every thread gets it. Threads without columns
// add 0, so the block may be larger than norm_threads(). `part` is shared memory.
__device__ inline float block_sum(float value, float (&part)[kMaxThreads / kWarp]) {
  value = warp_sum(value);
  if (blockDim.x == kWarp) return value;
  __syncthreads();  // the sum before has been read
  if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  return warp_sum(lane < blockDim.x / kWarp ? part[lane] : 0.0f);
}

struct NormShape {
  int32_t group;
  bool is_mean;
  float eps;
};
inline NormShape norm_shape(const tenon_norm_attr& attr, int64_t cols) {
  return {int32_t(attr.group ? attr.group : cols), attr.kind == TENON_NORM_RMS, attr.eps};
}
__device__ inline float norm_factor(const NormShape& shape, float squares) {
  if (shape.is_mean) squares /= float(shape.group);
  return 1.0f / sqrtf(squares + shape.eps);
}
__device__ inline float normed(float value, float factor, bool has_weight, float weight) {
  value *= factor;
  return has_weight ? value * weight : value;
}

// --- encode -----------------------------------------------------------------------------------------------------------

struct Encoded {
  uint8_t* data;
  int64_t row_bytes;
  uint32_t encoding;
  int32_t scale_at, sum_at;  // q8_32: bytes from the row's begin
};
inline Encoded encoded_of(const tenon_view& y, uint32_t encoding) {
  return {reinterpret_cast<uint8_t*>(y.data), y.row_bytes, encoding, int32_t(tenon_q8_32_scale_offset(y.cols)),
          int32_t(tenon_q8_32_sum_offset(y.cols))};
}

// Columns c … c + 3 as q8_32. Eight lanes hold a block of 32; all lanes of the warp come here, those without columns with
// `holds` false.
__device__ inline void encode_q8_32(const Encoded& y, int64_t r, int32_t c, bool holds, const Four& v) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kFour; ++i) largest = fmaxf(largest, isfinite(v[i]) ? fabsf(v[i]) : INFINITY);
  for (unsigned step = 4; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, step));
  const bool is_finite = isfinite(largest), is_zero = !is_finite || largest == 0;
  const float inverse = is_zero ? 0.0f : 127.0f / largest;
  uint32_t codes = 0;
  int sum = 0;  // of 16 columns
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    float rounded = is_zero ? 0.0f : rintf(v[i] * inverse);
    if (rounded > 127.0f) rounded = 127.0f;
    if (rounded < -127.0f) rounded = -127.0f;
    const int code = int(rounded);
    sum += code, codes |= uint32_t(uint8_t(int8_t(code))) << 8 * i;
  }
  for (unsigned step = 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
  if (!holds) return;
  uint8_t* row = y.data + r * y.row_bytes;
  *reinterpret_cast<uint32_t*>(row + c) = codes;
  if (c % 32 == 0) reinterpret_cast<float*>(row + y.scale_at)[c / 32] = is_finite ? largest / 127.0f : quiet_nan();
  if (c % 16 == 0) reinterpret_cast<int16_t*>(row + y.sum_at)[c / 16] = int16_t(sum);
}

// Columns c … c + 3 that lie before `end`, in any encoding that accept_encode() takes. All lanes of a warp come here.
__device__ inline void encode_four(const Encoded& y, int64_t r, int32_t c, int32_t end, const Four& v) {
  if (y.encoding == TENON_ENC_Q8_32) return encode_q8_32(y, r, c, c < end, v);
  uint8_t* row = y.data + r * y.row_bytes;
  if (y.encoding == TENON_ENC_F32) {
#pragma unroll
    for (int i = 0; i < kFour; ++i)
      if (c + i < end) reinterpret_cast<float*>(row)[c + i] = v[i];
    return;
  }
  uint32_t bits[kFour];
#pragma unroll
  for (int i = 0; i < kFour; ++i) bits[i] = y.encoding == TENON_ENC_F16 ? float_to_half(v[i]) : float_to_bf16(v[i]);
  if (c + kFour <= end) {
    *reinterpret_cast<uint2*>(row + 2 * c) = {bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
    return;
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i)
    if (c + i < end) reinterpret_cast<uint16_t*>(row)[c + i] = uint16_t(bits[i]);
}

}  // namespace tenon::cuda
