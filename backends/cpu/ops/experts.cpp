// Mixtures of experts: expert_ffn for float weights in a packed form and for any dtype through its decoder; fold_slots.
#include <algorithm>
#include <cstring>

#include "ops.hpp"

namespace tenon::cpu {

const ExpertTable& expert_table(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512::kExperts;
    case Isa::kAvx2:
      return avx2::kExperts;
    default:
      return portable::kExperts;
  }
}

namespace {

class ExpertFfn final : public sdk::Kernel {
 public:
  ExpertFfn(OpFunction run, bool decodes) : run_(run), decodes_(decodes) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (node.weights().size() != 3 || node.in().size() != 3)
      return sdk::refuse("takes x, ids, weights and three stacks");
    const auto& attr = node.attr<tenon_expert_ffn_attr>();
    if (attr.activation > TENON_ACT_SWIGLU_OAI) return sdk::refuse("activation %u", attr.activation);
    if (node.in()[0].groups > 1 || node.out()[0].groups > 1) return sdk::refuse("reads and writes whole rows");
    const auto* w = node.weights().data();
    if (w[0].rows != w[2].cols || w[1].rows != w[2].cols || w[0].cols != node.in()[0].cols || w[1].cols != w[0].cols)
      return sdk::refuse("gate, up and down do not fit each other");
    sdk::Offer offer;
    double bytes = 0;
    for (int i = 0; i < 3; ++i) {
      if (w[i].parts > 1) return sdk::refuse("folds K in one piece, not in %u parts", w[i].parts);
      if (w[i].n_expert < 1 || w[i].n_expert != w[0].n_expert)
        return sdk::refuse("reads stacks of equally many experts");
      const tenon_dtype* record = record_of(w[i].dtype);
      if (decodes_ && (!record || !record->decode)) return sdk::refuse("dtype %u has no decoder", w[i].dtype);
      if (!decodes_ && !is_float(w[i].dtype))
        return sdk::refuse("serves f32, f16 and bf16 weights, not %s", name_of(w[i].dtype).c_str());
      if (!decodes_) offer.packs(i, kRows16);
      bytes += double(w[i].rows) * double(w[i].row_bytes);
    }
    if (decodes_) offer.flag(TENON_OFFER_DEQUANTIZES);
    return offer.row_exact().flag(TENON_OFFER_PARTIAL_BANK).cost(bytes * attr.top_k);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override { pack_rows16(slice); }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto op = std::make_unique<OpPlan>();
    std::memset(static_cast<void*>(op.get()), 0, sizeof *op);
    op->expert = node.attr<tenon_expert_ffn_attr>();
    op->phase = node.table().phase, op->op = node.op(), op->max_rows = request.max_rows;
    for (size_t i = 0; i < 3; ++i) {
      op->dtype_id[i] = node.weights()[i].dtype;
      op->dtype[i] = record_of(op->dtype_id[i]);
    }
    // Slots that are given one by one lie elsewhere than a share of the columns.
    op->partition = op->expert.combine ? TENON_PART_CLAIM : TENON_PART_OUT_COLS, op->unit_cols = 16;
    plan.partition = op->partition, plan.unit_cols = op->unit_cols;
    const ExpertSizes sizes = expert_sizes(op->expert, node.weights().data(), request.max_rows,
                                           decodes_ ? decoded_experts_bytes(node.weights().data()) : 0);
    plan.workspace = uint64_t(sizes.workspace), plan.scratch = uint64_t(sizes.scratch);
    plan.impl = op.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const tenon_status status = run_(static_cast<const OpPlan*>(plan.impl), &args.table(), &worker.table());
    if (status == TENON_INVALID_ARGUMENT)
      throw sdk::Error(status, sdk::text("expert_ffn: expert %d is outside 0..%u",
                                                         sdk::unnamed_expert(args.in(1), args.rows(), args.weight(0).n_expert),
                                                         args.weight(0).n_expert));
    if (status != TENON_OK) throw sdk::Error(status, "expert_ffn: a dtype's record failed to decode a row");
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<OpPlan>(static_cast<OpPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  OpFunction run_;
  bool decodes_;
};

class FoldSlots final : public sdk::Kernel {
 public:
  explicit FoldSlots(OpFunction run) : run_(run) {}
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (node.in()[0].groups > 1 || node.in()[1].groups > 1 || node.out()[0].groups > 1)
      return sdk::refuse("reads and writes whole rows");
    if (node.in()[0].cols != node.in()[1].cols * node.out()[0].cols) return sdk::refuse("slots and weights do not fit");
    return sdk::offer().row_exact();
  }
  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    plan.partition = node.decode() ? TENON_PART_REPLICATE : TENON_PART_ROWS;
    auto op = std::make_unique<OpPlan>();
    std::memset(static_cast<void*>(op.get()), 0, sizeof *op);
    op->partition = plan.partition;
    plan.impl = op.release();
  }
  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    sdk::check(run_(static_cast<const OpPlan*>(plan.impl), &args.table(), &worker.table()));
  }
  void drop(tenon_plan& plan) const override {
    std::unique_ptr<OpPlan>(static_cast<OpPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  OpFunction run_;
};

}  // namespace

void register_experts(sdk::Registrar& registrar) {
  register_route(registrar);
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    const ExpertTable& table = expert_table(isa);
    const std::string tail = isa_name(isa);
    sdk::KernelInfo info;
    info.feature = isa_features(isa);
    const auto add = [&](const char* name, const char* pattern, int32_t priority) {
      info.pattern = pattern, info.priority = priority;
      return std::string("cpu.") + name + "." + tail;
    };
    std::string name = add("expert_ffn.f32", "expert_ffn", isa_priority(isa));
    info.numeric_class = name;
    registrar.kernel<ExpertFfn>(name, info, table.packed, false);
    name = add("expert_ffn.decoded.f32", "expert_ffn", isa_priority(isa) - 100);
    info.numeric_class = name;
    registrar.kernel<ExpertFfn>(name, info, table.decoded, true);
    name = add("fold_slots", "fold_slots", isa_priority(isa));
    info.numeric_class = name;
    registrar.kernel<FoldSlots>(name, info, table.fold_slots);
  }
}

}  // namespace tenon::cpu
