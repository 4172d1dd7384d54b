// op_entry.hpp: one row of the table of ops: what a node must be like, how a launch is cut, and which function serves
// it.
#pragma once

#include "ops.hpp"

namespace tenon::cpu {

// Checks of a node; an offer or a reason. Row-exactness is added by the kernel.
using AcceptFunction = sdk::Offer (*)(const sdk::Node&);
// Fills partition, n_units, unit_cols and the dtypes of `op`, and `scratch`; the attributes are there already.
using PlanFunction = void (*)(const sdk::Node&, OpPlan& op, uint64_t& scratch);

struct OpEntry {
  const char* name;
  OpFunction OpTable::*decode;
  OpFunction OpTable::*prefill;
  AcceptFunction accept;
  PlanFunction plan;
  size_t attr_bytes;
  bool same_everywhere;   // every instruction set gives the same bits
  const char* complaint;  // what a launch that answers INVALID_ARGUMENT has found
};

// The ops that read or write a store, and rope; see attention.cpp.
sdk::Offer accept_rope(const sdk::Node& node);
sdk::Offer accept_kv_write(const sdk::Node& node);
sdk::Offer accept_attention(const sdk::Node& node);
sdk::Offer accept_latent_attention(const sdk::Node& node);
void plan_rope(const sdk::Node& node, OpPlan& op, uint64_t& scratch);
void plan_kv_write(const sdk::Node& node, OpPlan& op, uint64_t& scratch);
void plan_attention(const sdk::Node& node, OpPlan& op, uint64_t& scratch);
void plan_latent_attention(const sdk::Node& node, OpPlan& op, uint64_t& scratch);

}  // namespace tenon::cpu
