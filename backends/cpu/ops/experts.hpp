// experts.hpp: memory of an expert_ffn launch. Included by sources that are built once an instruction set.
//
//   1. Groups of slots by expert, made by every worker for itself.
//   2. Hidden rows: each worker takes a share of the hidden columns of all groups, blocks of 16.
//   3. Behind a barrier, each worker takes a share of the output columns, a few blocks at a time: all groups' slots,
//   then
//      their sum in slot order.
#pragma once

#include <tenon/sdk/experts.hpp>

#include "op_plan.hpp"

namespace tenon::cpu {

constexpr int64_t kExpertRows = 96;   // rows of a group that are gathered and multiplied together
constexpr int64_t kExpertBlocks = 8;  // blocks of 16 hidden columns together

// Blocks of output columns together: few where many slots' columns would leave the second-level cache.
static inline int64_t slot_blocks(int64_t slots) { return slots <= 1024 ? 8 : 4; }

struct ExpertSizes {
  int64_t workspace, scratch;
  // Parts of the scratch, from its begin.
  int64_t rows, gate, up, slots, decoded, panel;
};

static inline ExpertSizes expert_sizes(const OpPlan& plan, const tenon_weight* w, int64_t max_rows, bool decodes) {
  const int64_t slots = max_rows * plan.expert.top_k, hidden = w[0].rows, width = w[0].cols;
  const int64_t wide = larger(hidden, width);
  ExpertSizes out = {};
  out.workspace = slots * TENON_ALIGN64(hidden * 4);
  out.scratch = sdk::expert_groups_bytes(max_rows, plan.expert.top_k, w[0].n_expert);
  const auto take = [&](int64_t floats) {
    const int64_t at = out.scratch;
    out.scratch += TENON_ALIGN64(floats * 4);
    return at;
  };
  out.rows = take(kExpertRows * width);
  out.gate = take(kExpertRows * kExpertBlocks * 16);
  out.up = take(kExpertRows * kExpertBlocks * 16);
  out.slots = take(larger(slots * 4, smaller(slots, 1024) * 8) * 16);
  out.decoded = take(decodes ? 16 * wide : 0);
  out.panel = take(decodes ? kExpertBlocks * 16 * wide : 0);
  return out;
}

}  // namespace tenon::cpu
