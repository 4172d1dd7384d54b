// op_plan.hpp: what a launch needs of its node, and the tables of functions that each instruction set fills.
//
// Included by sources that are built once an instruction set: plain structures and inline functions without code of the
// standard library.
#pragma once

#include <stdint.h>
#include <tenon/abi.h>

#include "../simd/expert_sizes.hpp"

namespace tenon::cpu {

// Made by plan(), immutable afterwards; tenon_plan.impl points at it.
struct OpPlan {
  uint32_t op, phase, partition, activation;
  int64_t n_units, unit_cols;
  union {
    tenon_embed_attr embed;
    tenon_encode_attr encode;
    tenon_norm_attr norm;
    tenon_glu_attr glu;
    tenon_gate_attr gate;
    tenon_scale_attr scale;
    tenon_rope_attr rope;
    tenon_kv_write_attr kv_write;
    tenon_attention_attr attention;
    tenon_latent_attention_attr latent;  // plan() turns it into `attention`
    tenon_expert_ffn_attr expert;
  };
  const tenon_dtype* dtype[4];  // of weights, or of a store's K and V
  uint32_t dtype_id[4];
  int64_t max_rows;
  int64_t value_cols;  // attention: from one value to the next; more than head_dim_v where values are a part of their keys
  uint32_t is_latent;
};

// Serves a launch for one worker. TENON_OK, or a status whose meaning the caller knows: launches have no other words.
using OpFunction = tenon_status (*)(const OpPlan*, const tenon_args*, const tenon_exec*);

// Functions of one instruction set.
struct OpTable {
  OpFunction embed, encode, norm, glu, gate, add, mul, scale, softcap, concat, select_rows, logits_tail, rope, kv_write,
      attention_decode, attention_prefill;
};

struct LinearTable {
  // y = x W^T for weights packed sixteen rows to a vector, and for weights that dtype->decode turns into f32.
  OpFunction packed_f32, decoded;
  OpFunction packed_bf16;  // null where the instruction set has no bf16 product
  OpFunction amx_bf16;     // the same in tiles, for many rows
};

struct ExpertTable {
  OpFunction packed, decoded;  // expert_ffn, as of LinearTable
  OpFunction fold_slots;
};
// Scratch of `decoded`: sixteen decoded rows, then the blocks of them turned that are asked for together.
static inline int64_t decoded_experts_bytes(const tenon_weight* w) {
  return 16 * (1 + kExpertBlocks) * larger(w[0].rows, w[0].cols) * 4;
}

namespace portable {
extern const OpTable kOps;
extern const LinearTable kLinear;
extern const ExpertTable kExperts;
}  // namespace portable
namespace avx2 {
extern const OpTable kOps;
extern const LinearTable kLinear;
extern const ExpertTable kExperts;
}  // namespace avx2
namespace avx512 {
extern const OpTable kOps;
extern const LinearTable kLinear;
extern const ExpertTable kExperts;
}  // namespace avx512

// Rows that this worker computes: its share when rows are cut, else all.
static inline Span rows_of(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  if (plan->partition == TENON_PART_ROWS) return share_of(args->rows, exec);
  return {0, int64_t(args->rows)};
}
// Columns of an output of `cols` columns that this worker computes.
static inline Span cols_of(const OpPlan* plan, int64_t cols, const tenon_exec* exec) {
  if (plan->partition != TENON_PART_OUT_COLS) return {0, cols};
  const Span units = share_of((cols + plan->unit_cols - 1) / plan->unit_cols, exec);
  const int64_t end = units.end * plan->unit_cols;
  return {units.begin * plan->unit_cols, end < cols ? end : cols};
}
// Heads or groups that this worker computes.
static inline Span heads_of(const OpPlan* plan, int64_t n, const tenon_exec* exec) {
  if (plan->partition == TENON_PART_HEADS) return share_of(n, exec);
  return {0, n};
}

}  // namespace tenon::cpu
