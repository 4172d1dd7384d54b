// ops.hpp: registers this backend's kernels.
#pragma once

#include <tenon/sdk/plugin.hpp>

#include "../isa.hpp"
#include "op_plan.hpp"

namespace tenon::cpu {

void register_ops(sdk::Registrar& registrar);     // all but the products and the composites
void register_chains(sdk::Registrar& registrar);  // composites of row-wise ops
void register_linear(sdk::Registrar& registrar);  // the products
void register_route(sdk::Registrar& registrar);
void register_experts(sdk::Registrar& registrar);  // route, expert_ffn, fold_slots

const OpTable& op_table(Isa isa);
const LinearTable& linear_table(Isa isa);
const ExpertTable& expert_table(Isa isa);

// Float weights in blocks of sixteen rows, absent rows zero: [rows / 16][cols][16].
constexpr uint32_t kRows16 = 0x63700001;
void pack_rows16(const sdk::PackSlice& slice);

// Bytes of a worker's scratch; the layouts stand beside the code that uses them.
uint64_t rope_scratch(const tenon_rope_attr& attr);
uint64_t attention_decode_scratch(const tenon_attention_attr& attr, int64_t value_cols);
uint64_t attention_prefill_scratch(const tenon_attention_attr& attr, int64_t value_cols);

inline bool is_float(uint32_t dtype) {
  return dtype == TENON_DTYPE_F32 || dtype == TENON_DTYPE_F16 || dtype == TENON_DTYPE_BF16;
}
inline const tenon_dtype* record_of(uint32_t dtype) { return sdk::host().dtype(sdk::host().self, dtype); }
inline std::string name_of(uint32_t dtype) { return std::string(sdk::dtype_name(dtype)); }

}  // namespace tenon::cpu
