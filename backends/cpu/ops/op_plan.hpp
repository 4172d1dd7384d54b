// op_plan.hpp: what a launch needs of its node, and the tables of functions that each instruction set fills.
//
// Included by sources that are built once an instruction set: plain structures and inline functions without code of the
// standard library.
#pragma once

#include <stdint.h>
#include <tenon/abi.h>

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
    tenon_expert_ffn_attr expert;
  };
  const tenon_dtype* dtype[4];  // of weights, or of a store's K and V
  uint32_t dtype_id[4];
  int64_t max_rows;
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
};

struct ExpertTable {
  OpFunction packed, decoded;  // expert_ffn, as of LinearTable
  OpFunction fold_slots;
};

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

// Workers' shares.
struct Span {
  int64_t begin, end;
};
static inline Span share_of(int64_t n, const tenon_exec* exec) {
  return {TENON_SHARE(n, exec->worker, exec->n_workers), TENON_SHARE(n, exec->worker + 1, exec->n_workers)};
}
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

// Address of element (r, c) of a value with `item` bytes an element, and how many columns follow without a gap.
static inline uint8_t* element(const tenon_view* view, int64_t r, int64_t c, int64_t item) {
  const tenon_addr row = view->data + tenon_addr(r * view->row_bytes);
  if (view->groups <= 1) return reinterpret_cast<uint8_t*>(row + tenon_addr(c * item));
  const int64_t width = view->cols / view->groups;
  return reinterpret_cast<uint8_t*>(row + tenon_addr(c / width * view->group_bytes + c % width * item));
}
static inline float* f32_at(const tenon_view* view, int64_t r, int64_t c) {
  return reinterpret_cast<float*>(element(view, r, c, 4));
}
static inline int64_t run_of(const tenon_view* view, int64_t c) {
  if (view->groups <= 1) return view->cols - c;
  const int64_t width = view->cols / view->groups;
  return width - c % width;
}
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename T>
static inline T* pointer_at(tenon_addr address, int64_t index) {
  return reinterpret_cast<T*>(address) + index;
}

}  // namespace tenon::cpu
