// head_chain.hpp: everything between the projections of an attention and the attention itself, head by head: biases, norms,
// rotations, and the new rows of the cache.
#pragma once

#include "ops.hpp"

namespace tenon::cuda {

constexpr uint32_t kMaxChainHead = 512;  // columns of a head: four a thread

// What happens to the heads of one projection. Numbers are of the group's operands; -1: none.
struct HeadPath {
  int32_t in, bias, weight, frequencies, out;
  Codec bias_codec, weight_codec, frequency_codec;
  int32_t heads, dim;
  bool has_norm;
  tenon_norm_attr norm;
  tenon_rope_attr rope;  // where there are frequencies
};
enum { kQueryPath = 0, kKeyPath = 1, kValuePath = 2, kHeadPaths = 3 };

struct HeadPlan {
  OpPlan op;             // its store, and the codecs of K and V
  HeadPath path[kHeadPaths];  // without heads: not there
};

void launch_head_chain(const HeadPlan& plan, const Launch& launch);
void register_head_chains(sdk::Registrar& registrar);

}  // namespace tenon::cuda
