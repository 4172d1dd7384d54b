// expert_sizes.hpp: memory of an expert_ffn launch with f32 activations; expert_ffn.hpp says what happens in it.
// Included by sources that are built once an instruction set.
#pragma once

#include <tenon/sdk/experts.hpp>

#include "views.hpp"

namespace tenon::cpu {

constexpr int64_t kExpertRows = 96;   // rows of a group that are gathered and multiplied together
constexpr int64_t kExpertBlocks = 8;  // blocks of 16 hidden columns together

// Blocks of output columns together: few where many slots' columns would leave the second-level cache.
static inline int64_t slot_blocks(int64_t slots) { return slots <= 1024 ? 8 : 4; }

struct ExpertSizes {
  int64_t workspace, scratch;
  // Parts of the scratch, from its begin; `own` is the product's.
  int64_t rows, gate, up, slots, own;
};

// `w`: gate, up and down. `own_bytes`: scratch of the product, which is asked for up to kExpertBlocks blocks at once.
static inline ExpertSizes expert_sizes(const tenon_expert_ffn_attr& attr, const tenon_weight* w, int64_t max_rows,
                                       int64_t own_bytes) {
  const int64_t slots = max_rows * attr.top_k, hidden = w[0].rows, width = w[0].cols;
  ExpertSizes out = {};
  out.workspace = slots * TENON_ALIGN64(hidden * 4);
  out.scratch = sdk::expert_groups_bytes(max_rows, attr.top_k, w[0].n_expert);
  const auto take = [&](int64_t bytes) {
    const int64_t at = out.scratch;
    out.scratch += TENON_ALIGN64(bytes);
    return at;
  };
  out.rows = take(kExpertRows * width * 4);
  out.gate = take(kExpertRows * kExpertBlocks * 16 * 4);
  out.up = take(kExpertRows * kExpertBlocks * 16 * 4);
  out.slots = take(larger(slots * 4, smaller(slots, 1024) * 8) * 16 * 4);
  out.own = take(own_bytes);
  return out;
}

}  // namespace tenon::cpu
