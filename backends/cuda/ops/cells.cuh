// cells.cuh: numbers of a head's row in a paged store, in every dtype that a cache can have here.
#pragma once

#include "cell_types.hpp"
#include "codecs_any.cuh"

namespace tenon::cuda {

// Number i of a row.
__device__ inline float load_cell(Codec codec, const uint8_t* row, int32_t i) {
  const int32_t block = i / 32, in = i % 32;
  const uint32_t shift = in < 16 ? 0 : 4;
  switch (codec) {
    case Codec::kQ8_0:
      row += block * 34;
      return load_half(row) * float(int8_t(row[2 + in]));
    case Codec::kQ4_0:
      row += block * 18;
      return load_half(row) * float(int(row[2 + in % 16] >> shift & 15) - 8);
    case Codec::kQ4_1:
      row += block * 20;
      return load_half(row) * float(row[4 + in % 16] >> shift & 15) + load_half(row + 2);
    case Codec::kQ5_0:
      row += block * 22;
      return load_half(row) * float(int((row[6 + in % 16] >> shift & 15) | (load32(row + 2) >> in & 1) << 4) - 16);
    case Codec::kQ5_1:
      row += block * 24;
      return load_half(row) * float((row[8 + in % 16] >> shift & 15) | (load32(row + 4) >> in & 1) << 4) +
             load_half(row + 2);
    case Codec::kFp8:
      return e4m3_to_float(row[i]);
    default:
      return load_float(codec, row, i);
  }
}

__device__ inline void store_float(Codec codec, uint8_t* row, int32_t i, float value) {
  if (codec == Codec::kF32) {
    reinterpret_cast<float*>(row)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(row)[i] = codec == Codec::kF16 ? float_to_half(value) : float_to_bf16(value);
  }
}
__device__ inline void store_half(uint8_t* p, float value) { *reinterpret_cast<uint16_t*>(p) = float_to_half(value); }

// Nearest code, ties to even; what is larger than 448 becomes 448, what is not finite NaN.
__device__ inline uint8_t e4m3_code(float value) {
  const uint32_t sign = __float_as_uint(value) >> 24 & 0x80;
  if (!isfinite(value)) return uint8_t(sign | 0x7f);
  const float magnitude = fabsf(value);
  if (magnitude >= 448.0f) return uint8_t(sign | 0x7e);
  // Steps of 2^-9 below 2^-6, then an eighth of the power of two below; 8 of them carry into the exponent.
  const int exponent = magnitude < 0x1p-6f ? -6 : int(__float_as_uint(magnitude) >> 23) - 127;
  const float to_steps = __uint_as_float(uint32_t(127 + 3 - exponent) << 23);
  return uint8_t(sign | uint32_t(int(rintf(magnitude * to_steps)) + ((exponent + 6) << 3)));
}

// The value that is first by `is_before` among a warp's lanes, of equals that of the lower lane (`last`: the higher).
template <typename IsBefore>
__device__ float first_of_warp(float value, bool last, const IsBefore& is_before) {
  int lane = int(threadIdx.x % kWarp);
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAll, value, int(step));
    const int other_lane = __shfl_xor_sync(kAll, lane, int(step));
    if (is_before(other, value) || (!is_before(value, other) && (other_lane < lane) != last))
      value = other, lane = other_lane;
  }
  return value;
}

// A warp stores a block of 32 values, a lane each, as the dtype's encoder does; a block that is not finite becomes NaN.
__device__ inline void store_block(Codec codec, uint8_t* block, float value) {
  const int lane = int(threadIdx.x % kWarp);
  const bool is_finite = __all_sync(kAll, isfinite(value));
  if (!is_finite) value = 0;
  const auto nan_or = [&](float scale) { return is_finite ? scale : quiet_nan(); };
  const bool has_min = codec == Codec::kQ4_1 || codec == Codec::kQ5_1;
  const bool has_fifth = codec == Codec::kQ5_0 || codec == Codec::kQ5_1;
  float d, low = 0;
  if (has_min) {
    low = first_of_warp(value, false, [](float a, float b) { return a < b; });
    d = (first_of_warp(value, true, [](float a, float b) { return a > b; }) - low) / (has_fifth ? 31.0f : 15.0f);
  } else {
    float extreme = first_of_warp(value, false, [](float a, float b) { return fabsf(a) > fabsf(b); });
    if (extreme == 0) extreme = 0.0f;  // of either sign
    d = codec == Codec::kQ8_0 ? fabsf(extreme) / 127.0f : extreme / (has_fifth ? -16.0f : -8.0f);
  }
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  if (lane == 0) store_half(block, nan_or(d));
  if (codec == Codec::kQ8_0) {
    const float rounded = roundf(value * inverse);
    block[2 + lane] = uint8_t(int8_t(rounded < -127.0f ? -127.0f : rounded > 127.0f ? 127.0f : rounded));
    return;
  }
  if (has_min && lane == 0) store_half(block + 2, low);
  const int most = has_fifth ? 31 : 15;
  const int rounded = has_min ? int((value - low) * inverse + 0.5f) : int(value * inverse + (has_fifth ? 16.5f : 8.5f));
  const int code = rounded < 0 ? 0 : rounded > most ? most : rounded;
  uint8_t* codes = block + (has_min ? 4 : 2);
  if (has_fifth) {
    int high = (code >> 4) << lane;
    for (unsigned step = kWarp / 2; step > 0; step /= 2) high |= __shfl_xor_sync(kAll, high, int(step));
    if (lane < 2) reinterpret_cast<uint16_t*>(codes)[lane] = uint16_t(uint32_t(high) >> 16 * lane);
    codes += 4;
  }
  const int other = __shfl_xor_sync(kAll, code, 16);
  if (lane < 16) codes[lane] = uint8_t((code & 15) | (other & 15) << 4);
}

// A warp stores values of columns c … c + 31 of a row, a lane each; n of them exist. Blocks exist as a whole.
__device__ inline void store_cells(Codec codec, uint8_t* row, int32_t c, int32_t n, float value) {
  const int32_t lane = int32_t(threadIdx.x % kWarp);
  if (has_cell_blocks(codec)) return store_block(codec, row + c / 32 * cell_block_bytes(codec), value);
  if (lane >= n) return;
  if (codec == Codec::kFp8) {
    row[c + lane] = e4m3_code(value);
  } else {
    store_float(codec, row, c + lane, value);
  }
}

}  // namespace tenon::cuda
