// experts.cuh: expert_ffn, the feed-forward of chosen experts, from weights in the file's form of any codec.
//
// A pair is a slot of a row. In a decode step each pair is computed on its own; in a prompt pairs are grouped by expert
// on the device, in ascending order, so that an expert's weights are decoded once for 64 rows. Nothing is read back.
// A pair whose expert is not here (address 0) has no part in its row's sum; one whose id names no expert makes its row
// NaN. Sums over K keep linear's orders, slots are folded as docs/ops.md says; nothing depends on other rows.
#pragma once

#include "expert_limits.hpp"
#include "matrix.cuh"

namespace tenon::cuda {

// One projection of all experts.
struct ExpertStack {
  Matrix first;             // whose planes the others' lie apart from, all by the same distance
  const uint64_t* address;  // of every expert's plane 0; null: `stride` bytes apart
  int64_t stride;
  const float* factor;  // after the K fold; null: 1
  __device__ uint64_t begin(int32_t id) const {
    return address ? address[id] : reinterpret_cast<uint64_t>(first.data) + uint64_t(id * stride);
  }
  __device__ Matrix matrix(int32_t id) const {
    const int64_t apart = int64_t(begin(id) - reinterpret_cast<uint64_t>(first.data));
    Matrix m = first;
    m.data += apart;
    if (m.scales) m.scales += apart;
    if (m.macro) m.macro += apart;
    return m;
  }
  __device__ float times_factor(float value, int32_t id) const { return factor ? value * factor[id] : value; }
};

struct Experts {
  ExpertStack gate, up, down;
  int32_t n_expert, hidden, cols, top_k;
  uint32_t activation, combine;
  float limit, alpha;
  __device__ bool has(int32_t id) const { return id >= 0 && id < n_expert; }
  __device__ bool is_here(int32_t id) const { return gate.begin(id) && up.begin(id) && down.begin(id); }
};

// The ids of rows.
struct Ids {
  const uint8_t* data;
  int64_t row_bytes;
  int32_t top_k;
  __device__ int32_t of(int64_t pair) const {
    return reinterpret_cast<const int32_t*>(data + pair / top_k * row_bytes)[pair % top_k];
  }
};

// What a launch is made of, for the translation units of the codecs.
struct ExpertLaunch {
  Experts experts;
  View x, weights, y;
  bool is_vector;
  Ids ids;
  Live live;
  uint8_t* workspace;
  ExpertWorkspace at;  // of a prompt
};

// With `codec` for gate and up, or for down; false if a list does not have it.
bool enqueue_experts_decode_float(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_decode_32(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_decode_256(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_decode_any(const Launch&, const ExpertLaunch&, bool is_down);
bool enqueue_experts_tile_float(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_tile_32(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_tile_256(const Launch&, const ExpertLaunch&, Codec codec, bool is_down);
bool enqueue_experts_tile_any(const Launch&, const ExpertLaunch&, bool is_down);

}  // namespace tenon::cuda
