// delta.hpp: the gated delta rule with the norms in front of it, and norm, gate and encoding behind it, as one launch.
#pragma once

#include "ops.hpp"

namespace tenon::cuda {

constexpr uint32_t kMaxFusedDelta = 128;  // columns of a key and of a value: a warp's, four a lane

struct DeltaPlan {
  OpPlan op;  // of the rule itself, with its codecs and its store
  tenon_norm_attr query_norm, key_norm, out_norm;
  Codec norm_codec;
  uint32_t activation, encoding;
  // Numbers of the group's operands.
  int32_t query, key, value, beta, alpha, gate;
  int32_t rate, bias, weight;
};

void launch_delta_chain(const DeltaPlan& plan, const Launch& launch);
void register_delta_chains(sdk::Registrar& registrar);

}  // namespace tenon::cuda
