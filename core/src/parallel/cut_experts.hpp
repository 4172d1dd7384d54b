// cut_experts.hpp: a layer's experts over ranks: dealt to owners, of which several ranks may cut the inner width.
#pragma once

#include "plan.hpp"
#include "shares.hpp"
#include "values.hpp"

#include <cstdint>

namespace tenon::parallel {

// The experts that one of so many owners has: neighbours, or every `n_owners`-th. The numbers divide.
Ranges owned_experts(int64_t n_expert, uint32_t n_owners, uint32_t owner, bool interleaved);

// Cuts an expert_ffn; `layer` is the plan's for the node's section. Each part of the inner width gives sums over a row's
// experts, and the parts are added in order. With one owner a rank has all experts and sums them by itself. With several it
// gives its slots one by one; every rank is sent its share of their columns, sums those, and the sums' columns are put together.
// Either way the bits follow from the number of parts alone. Where sums are to be fast, owners sum the slots that they have, and
// those sums are added. Throws Error(kUsage) with the weight, the numbers and the rule.
void cut_experts(const graph::Graph& in, const graph::Node& node, uint32_t section, const Plan& plan, const Plan::Layer& layer, Values& values,
                 Shares& shares);

// Throws Error(kUsage) where a user asks for owners of experts that a layer, or the whole model, does not have.
void check_experts(const graph::Graph& graph, const PlanOptions& options);

}  // namespace tenon::parallel
