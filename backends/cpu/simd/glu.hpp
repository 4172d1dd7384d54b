// glu.hpp: act(gate) × up with its limits, for sixteen lanes. For sources built once an instruction set.
#pragma once

#include <tenon/abi.h>

#include "vec_math.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// body(f) with f(gate, up) of a tenon_glu_attr's activation, limit and alpha, as docs/ops.md defines it. The caller is
// TENON_FLATTEN.
template <typename Body>
TENON_INLINE void with_glu(uint32_t activation, float limit, float alpha_number, Body body) {
  // No limit is a limit that nothing exceeds. A NaN comes out as NaN, since min2 and max2 keep the second operand.
  const float bound = limit > 0 ? limit : __builtin_inff();
  const F high = splat(bound), low = splat(-bound), alpha = splat(alpha_number);
  switch (activation) {
    case TENON_ACT_GELU_TANH:
      return body([=](F gate, F up) { return min2(high, gelu_tanh(gate)) * max2(low, min2(high, up)); });
    case TENON_ACT_SIGMOID:
      return body([=](F gate, F up) { return min2(high, sigmoid(gate)) * max2(low, min2(high, up)); });
    case TENON_ACT_SWIGLU_OAI:
      return body([=](F gate, F up) {
        gate = min2(high, gate);
        return gate * sigmoid(alpha * gate) * (max2(low, min2(high, up)) + splat(1.0f));
      });
    case TENON_ACT_NONE:
      return body([=](F gate, F up) { return min2(high, gate) * max2(low, min2(high, up)); });
    default:
      return body([=](F gate, F up) { return min2(high, silu(gate)) * max2(low, min2(high, up)); });
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
