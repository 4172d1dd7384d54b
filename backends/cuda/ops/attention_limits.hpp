// attention_limits.hpp: how attention cuts a row's keys, known to the plan and to the device code.
//
// Keys are read in tiles of 64 at absolute positions, tiles are folded in ascending order inside a group, and groups in
// ascending order again. A group's size depends on the row's own length alone, so the bits of a row are the same
// whether one block walks all groups or one block a group writes its part to the workspace.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TENON_HOST_DEVICE __host__ __device__
#else
#define TENON_HOST_DEVICE
#endif

namespace tenon::cuda {

constexpr uint32_t kMaxKeyDim = 576, kMaxValueDim = 512;  // widest heads

// Launches of more rows have blocks enough without splitting.
constexpr uint32_t kMaxSplitRows = 16;

// Keys of a group for a row that sees positions below `length`.
TENON_HOST_DEVICE inline int64_t group_keys(int64_t length) {
  if (length <= 8192) return 64;
  return length <= 32768 ? 256 : 1024;
}

// Groups that a row can touch when no position reaches `context`. A window of w keys touches w / 64 + 2 of the
// smallest.
inline int64_t max_key_groups(int64_t context, int32_t window) {
  int64_t groups = (context + 63) / 64;
  if (groups > 128) groups = (context + 1023) / 1024 > 128 ? (context + 1023) / 1024 : 128;
  if (window > 0 && window / 64 + 2 < groups) groups = window / 64 + 2;
  return groups < 1 ? 1 : groups;
}

// The same for attention_split.cuh, where a window of a few thousand keys always has small groups: blocks enough.
TENON_HOST_DEVICE inline int64_t split_group_keys(int64_t length, int32_t window) {
  constexpr int32_t kSmallWindow = 126 * 64;
  return window > 0 && window <= kSmallWindow ? 64 : group_keys(length);
}
// Rows of a launch whose parts lie in the workspace: as many as fit in this, and one at least. A block walks all groups of
// each further row.
constexpr uint64_t kSplitWorkspaceBytes = uint64_t(64) << 20;

// Numbers of a group's part in the workspace: the weighted sum, the maximum, the sum of weights, and whether any key
// counted.
TENON_HOST_DEVICE inline int64_t partial_floats(int64_t head_dim_v) { return head_dim_v + 4; }

}  // namespace tenon::cuda
