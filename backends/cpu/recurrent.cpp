#include "recurrent.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <tenon/sdk/plugin.hpp>

#include "isa.hpp"

namespace tenon::cpu {
namespace {

constexpr int64_t kConvBlockChannels = 128;  // as in recurrent_conv.hpp
constexpr int64_t kDeltaTileColumns = 64;    // the widest tile of any instruction set

const RecurrentTable& table_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx512:
      return avx512::kRecurrent;
    case Isa::kAvx2:
      return avx2::kRecurrent;
#endif
    default:
      return portable::kRecurrent;
  }
}

const tenon_dtype* decoder_of(uint32_t dtype) {
  const tenon_dtype* record = sdk::host().dtype(sdk::host().self, dtype);
  return record && record->decode ? record : nullptr;
}

void check_launch(tenon_status status) {
  if (status != TENON_OK)
    throw sdk::Error(status, "a sequence's rows, accepted rows or tape break the rules of a transaction");
}

class ShortConv final : public sdk::Kernel {
 public:
  explicit ShortConv(Isa isa) : table_(table_of(isa)) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto& attr = node.attr<tenon_short_conv_attr>();
    const tenon_weight& w = node.weights()[0];
    if (attr.activation != TENON_ACT_NONE && attr.activation != TENON_ACT_SILU)
      return sdk::refuse("serves no activation and SiLU, not activation %u", attr.activation);
    if (attr.taps < 2 || attr.taps > 16) return sdk::refuse("serves 2 to 16 taps, not %u", attr.taps);
    if (!decoder_of(w.dtype)) return sdk::refuse("weight dtype %u has no decoder", w.dtype);
    if (w.rows != node.in()[0].cols || w.cols != int64_t(attr.taps))
      return sdk::refuse("weight is %lld × %lld, not channels × taps", static_cast<long long>(w.rows),
                         static_cast<long long>(w.cols));
    if (node.stores()[0].layout != 0) return sdk::refuse("serves store layout 0, not %u", node.stores()[0].layout);
    if (node.out()[0].groups > 1) return sdk::refuse("writes no strided view");
    const double channels = double(w.rows);
    return sdk::offer().packs(0, kConvLayout).row_exact().cost(channels * 4 * (attr.taps * 2.0), channels * 1e-4);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override {
    const tenon_weight& w = slice.src();
    const int64_t stride = conv_stride(w.rows);
    if (!slice.table->dst) {
      slice.table->bytes = uint64_t(stride * w.cols * 4), slice.table->align = 64, slice.table->tail_pad = 0;
      return;
    }
    float rows[64 * 16];
    for (int64_t done = 0; done < slice.rows(); done += 64) {
      const int64_t n = slice.rows() - done < 64 ? slice.rows() - done : 64, row0 = slice.row0() + done;
      sdk::check(decoder_of(w.dtype)->decode(&w, row0, n, rows));
      for (int64_t j = 0; j < w.cols; ++j) {
        float* to = slice.dst<float>() + j * stride + row0;
        for (int64_t i = 0; i < n; ++i) to[i] = rows[i * w.cols + j];
        for (int64_t i = n; row0 + n == w.rows && row0 + i < stride; ++i) to[i] = 0;
      }
    }
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    const auto& attr = node.attr<tenon_short_conv_attr>();
    auto facts = std::make_unique<ConvPlan>();
    facts->channels = node.in()[0].cols, facts->taps = attr.taps, facts->activation = attr.activation;
    plan.partition = TENON_PART_OUT_COLS, plan.unit_cols = 16, plan.n_units = (facts->channels + 15) / 16;
    plan.scratch = uint64_t(conv_scratch(*facts)) * 4;
    plan.impl = facts.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    check_launch(table_.conv(static_cast<const ConvPlan*>(plan.impl), &args.table(), &worker.table()));
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<ConvPlan>(static_cast<ConvPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  const RecurrentTable& table_;
};

class GatedDeltaRule final : public sdk::Kernel {
 public:
  GatedDeltaRule(Isa isa, bool chunked) : table_(table_of(isa)), chunked_(chunked) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto& attr = node.attr<tenon_gated_delta_rule_attr>();
    if (attr.key_dim % 16 || attr.value_dim % 16 || !attr.key_dim || !attr.value_dim)
      return sdk::refuse("head widths %u and %u are no multiples of 16", attr.key_dim, attr.value_dim);
    if (!attr.key_heads || attr.value_heads % attr.key_heads)
      return sdk::refuse("%u value heads are no multiple of %u key heads", attr.value_heads, attr.key_heads);
    const int64_t width[3] = {attr.key_dim, attr.key_dim, attr.value_dim};
    for (size_t i = 0; i < 3; ++i) {
      const tenon_type& type = node.in()[i];
      if (type.groups > 1 && type.cols / type.groups % width[i])
        return sdk::refuse("input %zu is a view whose groups cut a head", i);
    }
    for (size_t i = 0; i < 2; ++i) {
      const tenon_weight& w = node.weights()[i];
      if (!decoder_of(w.dtype)) return sdk::refuse("weight dtype %u has no decoder", w.dtype);
      if (w.rows * w.cols != int64_t(attr.value_heads))
        return sdk::refuse("weight %zu has %lld numbers for %u heads", i, static_cast<long long>(w.rows * w.cols),
                           attr.value_heads);
    }
    const tenon_store_type& store = node.stores()[0];
    const int64_t tape = int64_t(attr.key_heads) * attr.key_dim + int64_t(attr.value_heads) * (attr.value_dim + 2);
    if (store.layout != 0) return sdk::refuse("serves store layout 0, not %u", store.layout);
    if (store.tape_cols != tape)
      return sdk::refuse("a tape row of %lld numbers, not %lld", static_cast<long long>(store.tape_cols),
                         static_cast<long long>(tape));
    if (node.out()[0].groups > 1) return sdk::refuse("writes no strided view");
    const double state = double(attr.value_heads) * attr.key_dim * attr.value_dim * 4;
    return sdk::offer().row_exact().cost(state * 2, state * 2e-6);
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    const auto& attr = node.attr<tenon_gated_delta_rule_attr>();
    auto facts = std::make_unique<DeltaPlan>();
    facts->key_heads = attr.key_heads, facts->value_heads = attr.value_heads;
    facts->key_dim = attr.key_dim, facts->value_dim = attr.value_dim;
    facts->head_map = attr.head_map, facts->scale = attr.scale, facts->max_rows = request.max_rows;
    for (size_t i = 0; i < 2; ++i) facts->dtype[i] = decoder_of(node.weights()[i].dtype);
    plan.partition = TENON_PART_HEADS, plan.n_units = attr.value_heads;
    plan.scratch = uint64_t(chunked_ ? delta_chunked_scratch(*facts) : delta_sequential_scratch(*facts)) * 4;
    plan.impl = facts.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const auto function = chunked_ ? table_.delta_chunked : table_.delta_sequential;
    check_launch(function(static_cast<const DeltaPlan*>(plan.impl), &args.table(), &worker.table()));
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<DeltaPlan>(static_cast<DeltaPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  const RecurrentTable& table_;
  bool chunked_;
};

}  // namespace

int64_t conv_scratch(const ConvPlan& plan) { return 2 * plan.taps + plan.taps * kConvBlockChannels; }

int64_t delta_sequential_scratch(const DeltaPlan& plan) {
  return 2 * conv_stride(plan.value_heads) + plan.key_dim * kDeltaTileColumns + 2 * plan.max_rows;
}

int64_t delta_chunked_scratch(const DeltaPlan& plan) {
  const int64_t c = TENON_PAGE_TOKENS;
  const int64_t chunk = 5 * c + c * (4 * plan.key_dim + 4 * c + 3 * plan.value_dim);
  const int64_t rows = plan.key_dim * kDeltaTileColumns + 2 * plan.max_rows;
  return 2 * conv_stride(plan.value_heads) + (chunk > rows ? chunk : rows);
}

void register_recurrent(sdk::Registrar& registrar) {
  for (int i = 0; i < kIsaCount; ++i) {
    const auto isa = static_cast<Isa>(i);
    const std::string name = isa_name(isa);
    const auto info = [&](const char* op, const std::string& numeric_class, uint32_t phases) {
      sdk::KernelInfo out;
      out.backend = "cpu", out.pattern = op, out.numeric_class = numeric_class, out.feature = isa_features(isa);
      out.phases = phases, out.priority = isa_priority(isa);
      return out;
    };
    const std::string conv = "cpu.short_conv." + name, sequential = "cpu.gdn.sequential." + name;
    const std::string chunked = "cpu.gdn.chunked." + name;
    registrar.kernel<ShortConv>(conv, info("short_conv", conv, TENON_PHASE_DECODE | TENON_PHASE_PREFILL), isa);
    registrar.kernel<GatedDeltaRule>(sequential, info("gated_delta_rule", sequential, TENON_PHASE_DECODE), isa, false);
    registrar.kernel<GatedDeltaRule>(chunked, info("gated_delta_rule", chunked, TENON_PHASE_PREFILL), isa, true);
  }
}

}  // namespace tenon::cpu
