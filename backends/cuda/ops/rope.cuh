// rope.cuh: how a pair of columns turns, for every kernel that has a rotation.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

struct RopeShape {
  int32_t head_dim, pairs, heads;
  bool is_half;
  float magnitude;
  int32_t section1, section2;  // three times the sections of streams 1 and 2
};

// Position stream of pair i, interleaved over three streams.
__device__ inline int32_t stream_of(const RopeShape& shape, int32_t i) {
  if (i % 3 == 1 && i < shape.section1) return 1;
  if (i % 3 == 2 && i < shape.section2) return 2;
  return 0;
}
inline RopeShape rope_shape(const tenon_rope_attr& attr, int64_t cols) {
  return {int32_t(attr.head_dim),
          int32_t(attr.n_rot / 2),
          int32_t(cols / int64_t(attr.head_dim)),
          attr.style == TENON_ROPE_HALF,
          attr.magnitude,
          int32_t(3 * attr.sections[1]),
          int32_t(3 * attr.sections[2])};
}

// Columns of pair i.
__device__ inline int32_t first_of(const RopeShape& shape, int32_t i) { return shape.is_half ? i : 2 * i; }
__device__ inline int32_t second_of(const RopeShape& shape, int32_t i) { return shape.is_half ? i + shape.pairs : 2 * i + 1; }

struct Turn {
  float sine, cosine;
  __device__ float first(float a, float b) const { return fmaf(a, cosine, -(b * sine)); }
  __device__ float second(float a, float b) const { return fmaf(a, sine, b * cosine); }
};
struct Angles {
  const void* inv_freq;
  Codec codec;
  const int32_t* position;
  int64_t stream_step;  // from one stream of positions to the next
};
__device__ inline Turn turn_of(const RopeShape& shape, const Angles& angles, int64_t r, int32_t i) {
  // Rounded to f32: what models were trained with.
  const int32_t position = angles.position[stream_of(shape, i) * angles.stream_step + r];
  const float angle = float(position) * load_float(angles.codec, angles.inv_freq, i);
  Turn turn;
  sincosf(angle, &turn.sine, &turn.cosine);
  turn.sine *= shape.magnitude, turn.cosine *= shape.magnitude;
  return turn;
}

}  // namespace tenon::cuda
