// plan_options.hpp: what a model's options say of ranks.
#pragma once

#include "parallel/plan.hpp"

#include <tenon/engine.hpp>

namespace tenon::engine {

inline parallel::PlanOptions plan_options(const ModelOptions& options) {
  parallel::PlanOptions out;
  out.tensor = options.tensor_parallel, out.experts = options.expert_parallel, out.pipeline = options.pipeline_parallel;
  out.tensor_layers = options.tensor_layers, out.expert_layers = options.expert_layers;
  out.interleave_experts = options.interleave_experts;
  out.sum_parts = options.sum_parts, out.expert_parts = options.expert_parts;
  return out;
}

}  // namespace tenon::engine
