// The table of one instruction set.
#include "ops_isa.hpp"

namespace tenon::cpu::TENON_ISA {

const OpTable kOps = {embed,
                      encode,
                      norm,
                      glu,
                      gate,
                      add,
                      mul,
                      scale,
                      softcap,
                      concat,
                      select_rows,
                      logits_tail,
                      rope,
                      kv_write,
                      attention_decode,
                      attention_prefill};

}  // namespace tenon::cpu::TENON_ISA
