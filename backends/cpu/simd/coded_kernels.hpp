// coded_kernels.hpp: the kernel classes of a family of coded weights with f32 activations. coded_product.hpp defines
// the arithmetic.
//
// A family gives:
//   static constexpr const char* kServes                      what it serves, for reasons
//   static std::optional<uint32_t> layout_of(uint32_t dtype)  the packed form of a dtype; none: not served
//   static int64_t block_cols(uint32_t dtype)                 columns are a multiple of it
//   static int64_t panel_bytes(uint32_t layout, int64_t cols)
//   static void pack_panel(const tenon_weight& src, uint32_t layout, int64_t row0, int64_t rows, uint8_t* panel)
//                                                             up to sixteen rows; lanes past the last are zero
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tenon/sdk/kernel.hpp>

#include "coded.hpp"

namespace tenon::cpu {

// What both ops ask of a weight; empty if it can be served.
template <typename Family>
std::string coded_fault(const tenon_weight& w, int64_t cols) {
  const auto layout = Family::layout_of(w.dtype);
  if (!layout) return std::string("serves ") + Family::kServes + ", not " + std::string(sdk::dtype_name(w.dtype));
  if (w.rows <= 0 || w.cols <= 0) return "is empty";
  if (w.cols != cols)
    return sdk::text("has %lld columns where %lld are wanted", static_cast<long long>(w.cols),
                     static_cast<long long>(cols));
  if (w.cols % Family::block_cols(w.dtype))
    return sdk::text("has %lld columns, no multiple of %lld", static_cast<long long>(w.cols),
                     static_cast<long long>(Family::block_cols(w.dtype)));
  if (w.parts > 1) return sdk::text("folds K in one piece, not in %u parts", w.parts);
  return {};
}

template <typename Family>
double coded_bytes(const tenon_weight& w) {
  const int64_t panels = (w.rows + kPanelRows - 1) / kPanelRows;
  return static_cast<double>(panels * Family::panel_bytes(*Family::layout_of(w.dtype), w.cols));
}

// Answers size and alignment of a packed weight, or packs a slice. Throws sdk::Error with INVALID_ARGUMENT for what
// accept() would have refused.
template <typename Family>
void pack_coded(const sdk::PackSlice& slice) {
  tenon_pack& table = *slice.table;
  const tenon_weight& src = slice.src();
  const auto layout = Family::layout_of(src.dtype);
  if (!layout || *layout != table.layout || src.rows <= 0 || src.cols <= 0 || src.cols % Family::block_cols(src.dtype))
    throw sdk::Error(
        TENON_INVALID_ARGUMENT,
        sdk::text("a %s weight of %lld x %lld does not fit layout %x", std::string(sdk::dtype_name(src.dtype)).c_str(),
                  static_cast<long long>(src.rows), static_cast<long long>(src.cols), table.layout));
  const int64_t bytes = Family::panel_bytes(*layout, src.cols);
  if (table.dst == 0) {
    table.bytes = static_cast<uint64_t>((src.rows + kPanelRows - 1) / kPanelRows * bytes);
    table.align = 64, table.tail_pad = 0;
    return;
  }
  const int64_t row0 = slice.row0(), rows = slice.rows();
  if (src.layout != 0 || table.on_device || row0 < 0 || row0 % kPanelRows || rows < 0 || rows > src.rows - row0 ||
      (rows % kPanelRows && row0 + rows != src.rows))
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     sdk::text("cannot pack rows %lld … %lld of %lld: slices begin and end at multiples of %lld, in "
                               "host memory, from the file's layout",
                               static_cast<long long>(row0), static_cast<long long>(row0 + rows),
                               static_cast<long long>(src.rows), static_cast<long long>(kPanelRows)));
  for (int64_t r = row0; r < row0 + rows; r += kPanelRows)
    Family::pack_panel(src, *layout, r, std::min(kPanelRows, row0 + rows - r), slice.dst() + r / kPanelRows * bytes);
}

// linear: x f32 [rows, K], also a strided view; W₁…W₄ [Nᵢ, K] -> yᵢ f32. Row-exact.
template <typename Family>
class CodedLinear final : public sdk::Kernel {
 public:
  explicit CodedLinear(const CodedTable& table) : table_(table) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto w = node.weights();
    if (node.op() != TENON_OP_LINEAR || w.empty() || w.size() > 4 || node.in().size() != 1 ||
        node.out().size() != w.size())
      return sdk::refuse("serves linear with one input and 1 to 4 weights with an output each");
    sdk::Offer offer = sdk::offer().row_exact();
    double bytes = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      std::string fault = coded_fault<Family>(w[i], node.in()[0].cols);
      if (fault.empty() && (w[i].n_expert > 0 || w[i].bank)) fault = "is a stack of experts";
      if (!fault.empty()) return sdk::Offer::refusal(sdk::text("weight %d: ", static_cast<int>(i)) + fault);
      if (node.out()[i].groups > 1) return sdk::refuse("output %d is a strided view", static_cast<int>(i));
      offer.packs(static_cast<int>(i), *Family::layout_of(w[i].dtype));
      bytes += coded_bytes<Family>(w[i]);
    }
    return offer.cost(bytes);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override { pack_coded<Family>(slice); }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    const tenon_type& x = node.in()[0];
    const int64_t copied = x.groups > 1 ? int64_t{std::max(1u, request.max_rows)} * x.cols * 4 : 0;
    plan.partition = TENON_PART_OUT_COLS, plan.unit_cols = kPanelRows;
    plan.n_units = (node.weights()[0].rows + kPanelRows - 1) / kPanelRows;
    plan.scratch = static_cast<uint64_t>(kCodedScratch + copied);
  }

  void launch(const tenon_plan&, const sdk::Args& args, const sdk::Worker& worker) const override {
    table_.linear(&args.table(), &worker.table());
  }

 private:
  const CodedTable& table_;
};

// expert_ffn: x f32 [rows, K], ids, weights; stacks -> y f32. Each expert's weights are read once for all rows that go
// to it; hidden rows are held in f32. Row-exact.
template <typename Family>
class CodedExperts final : public sdk::Kernel {
 public:
  explicit CodedExperts(const CodedTable& table) : table_(table) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto w = node.weights();
    if (node.op() != TENON_OP_EXPERT_FFN || w.size() != 3 || node.in().size() != 3)
      return sdk::refuse("serves expert_ffn: x, ids, weights and three stacks");
    const auto& attr = node.attr<tenon_expert_ffn_attr>();
    if (attr.activation > TENON_ACT_SWIGLU_OAI) return sdk::refuse("activation %u", attr.activation);
    if (node.in()[0].groups > 1 || node.out()[0].groups > 1) return sdk::refuse("reads and writes whole rows");
    sdk::Offer offer = sdk::offer().row_exact().flag(TENON_OFFER_PARTIAL_BANK);
    double bytes = 0;
    for (int i = 0; i < 3; ++i) {
      const tenon_weight& one = w[static_cast<size_t>(i)];
      std::string fault = coded_fault<Family>(one, i == 2 ? w[0].rows : node.in()[0].cols);
      if (fault.empty() && (one.n_expert < 1 || one.n_expert != w[0].n_expert || w[1].rows != w[0].rows))
        fault = "is no stack that fits the others";
      if (!fault.empty()) return sdk::Offer::refusal(sdk::text("weight %d: ", i) + fault);
      offer.packs(i, *Family::layout_of(one.dtype));
      bytes += coded_bytes<Family>(one);
    }
    return offer.cost(bytes * attr.top_k);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override { pack_coded<Family>(slice); }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto own = std::make_unique<CodedExpertPlan>(
        CodedExpertPlan{node.attr<tenon_expert_ffn_attr>(), std::max(1u, request.max_rows)});
    const ExpertSizes sizes = expert_sizes(own->attr, node.weights().data(), own->max_rows, kCodedScratch);
    // Slots that are given one by one lie elsewhere than a share of the columns.
    plan.partition = own->attr.combine ? TENON_PART_CLAIM : TENON_PART_OUT_COLS, plan.unit_cols = kPanelRows;
    plan.workspace = static_cast<uint64_t>(sizes.workspace), plan.scratch = static_cast<uint64_t>(sizes.scratch);
    plan.impl = own.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    if (table_.experts(static_cast<const CodedExpertPlan*>(plan.impl), &args.table(), &worker.table()) != TENON_OK)
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("expert_ffn: expert %d is outside 0..%u",
                                                         sdk::unnamed_expert(args.in(1), args.rows(), args.weight(0).n_expert),
                                                         args.weight(0).n_expert));
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<CodedExpertPlan>(static_cast<CodedExpertPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  const CodedTable& table_;
};

// Registers both ops once an instruction set, named after the family.
template <typename Family, typename Registrar>
void register_coded(Registrar& registrar, const std::string& family, const CodedTable& portable, const CodedTable& avx2,
                    const CodedTable& avx512) {
  const auto add = [&](const std::string& isa, const CodedTable& table, const char* feature, int32_t priority) {
    sdk::KernelInfo info;
    const std::string linear = family + ".linear." + isa, experts = family + ".expert_ffn." + isa;
    info.feature = feature, info.priority = priority;
    info.pattern = "linear", info.numeric_class = linear;
    registrar.template kernel<CodedLinear<Family>>(linear, info, table);
    info.pattern = "expert_ffn", info.numeric_class = experts;
    registrar.template kernel<CodedExperts<Family>>(experts, info, table);
  };
  add("avx512", avx512, "avx512f avx512bw avx512dq avx512vl avx512vnni", 120);
  add("avx2", avx2, "avx2 fma f16c", 110);
  add("portable", portable, "", 100);
}

}  // namespace tenon::cpu
