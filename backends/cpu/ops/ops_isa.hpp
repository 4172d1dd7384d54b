// ops_isa.hpp: the functions behind OpTable, one set an instruction set.
#pragma once

#include "elementwise.hpp"

namespace tenon::cpu::TENON_ISA {

#define TENON_CPU_OP(name) tenon_status name(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec)
TENON_CPU_OP(embed);
TENON_CPU_OP(encode);
TENON_CPU_OP(norm);
TENON_CPU_OP(glu);
TENON_CPU_OP(gate);
TENON_CPU_OP(add);
TENON_CPU_OP(mul);
TENON_CPU_OP(scale);
TENON_CPU_OP(softcap);
TENON_CPU_OP(concat);
TENON_CPU_OP(select_rows);
TENON_CPU_OP(logits_tail);
TENON_CPU_OP(rope);
TENON_CPU_OP(kv_write);
TENON_CPU_OP(attention_decode);
TENON_CPU_OP(attention_prefill);
#undef TENON_CPU_OP

}  // namespace tenon::cpu::TENON_ISA
