// kernels.hpp: the kernel classes of the family.
#pragma once

#include <optional>
#include <tenon/sdk/kernel.hpp>

#include "linear.hpp"

namespace tenon::block {

// The type behind a dtype id; none when this family does not serve it.
std::optional<Type> type_of_dtype(uint32_t dtype);

// Answers size and alignment of a packed weight, or packs a slice. Throws sdk::Error with INVALID_ARGUMENT for a weight
// that accept() would have refused.
void pack_weight(const sdk::PackSlice& slice);

// linear: x q8_32 [rows, K]; W₁…W₄ [Nᵢ, K], any mix of the served types -> yᵢ f32. K is a multiple of the types'
// blocks. Row-exact; the fold is defined in linear.hpp. Every worker computes its share of each output's units of 16
// columns.
class Linear : public sdk::Kernel {
 public:
  explicit Linear(const InstructionSet& set) : set_(set) {}
  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override;
  void pack(const sdk::Node& node, const sdk::PackSlice& slice) const override;
  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override;
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override;

 protected:
  static LinearJob job_of(const sdk::Args& args, const sdk::Worker& worker);

 private:
  const InstructionSet& set_;
};

// linear in prefill: x bf16 [rows, K] and weights as of Linear, in its packed form, rounded to bf16 when they are
// decoded. Row-exact; the fold is defined in ../../simd/amx.hpp.
class LinearAmx final : public Linear {
 public:
  using Linear::Linear;
  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override;
  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override;
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override;
};

// expert_ffn: x q8_32 [rows, K], ids, weights; stacks of the served types -> y f32. Each expert's weights are read once
// for all rows that go to it; hidden rows are held in q8_32. Row-exact: products as in Linear, slots summed in order.
class ExpertFfn final : public sdk::Kernel {
 public:
  explicit ExpertFfn(const InstructionSet& set) : set_(set) {}
  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override;
  void pack(const sdk::Node& node, const sdk::PackSlice& slice) const override;
  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override;
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override;
  void drop(tenon_plan& plan) const override;

 private:
  const InstructionSet& set_;
};

// embed: tokens, overlay?; a packed table -> x f32. Gathers rows of a table that a Linear has packed, bit for bit as
// the dtype's definition decodes them, so that a tied table lies in memory once. A token outside the table gives a row
// of NaN.
class Embed final : public sdk::Kernel {
 public:
  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override;
  void pack(const sdk::Node& node, const sdk::PackSlice& slice) const override;
  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override;
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override;
};

}  // namespace tenon::block
