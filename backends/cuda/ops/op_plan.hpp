// op_plan.hpp: what a launch needs of its node.
#pragma once

#include <tenon/abi.h>

#include <cstdint>

namespace tenon::cuda {

// Storage forms that device code decodes. Ids of block types are the host's, so plans hold this instead.
enum class Codec : uint32_t {
  kNone,
  kF32,
  kF16,
  kBf16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kIq1S,
  kIq1M,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
  kTq1_0,
  kTq2_0,
  kMxfp4,
  kNvfp4,
  // E4M3, and the dtypes of several planes.
  kFp8,
  kFp8Tensor,
  kFp8TensorBf16,
  kFp8Row,
  kFp8RowBf16,
  kFp8B128,
  kFp8B128Bf16,
  kNvfp4Modelopt,
  kNvfp4Ct
};

// Made by plan(), immutable afterwards; tenon_plan.impl points at it.
struct OpPlan {
  uint32_t op, phase, domain, max_rows;
  int64_t max_context;
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
    tenon_short_conv_attr short_conv;
    tenon_gated_delta_rule_attr delta;
    tenon_route_attr route;
    tenon_expert_ffn_attr expert_ffn;
    tenon_latent_attention_attr latent;
  };
  Codec codec[4];  // of weights, or of a store's K and V
  tenon_store_type store;
  uint32_t split_rows, max_groups;  // attention: launches of so few rows are split over their keys
};

}  // namespace tenon::cuda
