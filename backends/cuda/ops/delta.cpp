// The gated delta rule among its neighbours: which nodes are taken.
#include "delta.hpp"

#include <algorithm>

#include "composite_kernel.hpp"

namespace tenon::cuda {
namespace {

constexpr struct {
  const char *name, *text;
} kTexts[] = {
    {"norm_gated_delta_rule_norm_gate_encode",
     "q = norm(l); k = norm(m); o = gated_delta_rule(q, k, v, b, a; c, d; s); p = norm(o; w); g = gate(p, z); e = encode(g) -> e"},
    {"norm_gated_delta_rule_norm_gate",
     "q = norm(l); k = norm(m); o = gated_delta_rule(q, k, v, b, a; c, d; s); p = norm(o; w); g = gate(p, z) -> g"},
};

class DeltaChainKernel final : public CompositeKernel<DeltaPlan> {
 public:
  explicit DeltaChainKernel(std::string_view text) : CompositeKernel(text, launch_delta_chain) {}

 private:
  enum { kQueryNorm, kKeyNorm, kRule, kOutNorm, kGate, kEncode };  // statements

  sdk::Offer check(const sdk::Node& node) const override {
    for (const tenon_node& part : node.parts()) {
      const sdk::Node one(&part);
      sdk::Offer offer = part.op == TENON_OP_NORM   ? accept_norm(one)
                         : part.op == TENON_OP_GATE ? accept_gate(one)
                         : part.op == TENON_OP_ENCODE ? accept_encode(one)
                                                      : accept_delta(one);
      if (offer.refused()) return offer;
    }
    DeltaPlan plan = {};
    fill(node, plan);
    const tenon_gated_delta_rule_attr& rule = plan.op.delta;
    if (rule.key_dim > kMaxFusedDelta || rule.key_dim % 4 || rule.value_dim > kMaxFusedDelta || rule.value_dim % 32)
      return sdk::refuse("heads of %u and %u: keys of up to %u, a multiple of 4, and values of up to %u, a multiple of 32, are served",
                         rule.key_dim, rule.value_dim, kMaxFusedDelta, kMaxFusedDelta);
    if (plan.query_norm.group != rule.key_dim || plan.key_norm.group != rule.key_dim || plan.out_norm.group != rule.value_dim)
      return sdk::refuse("norms over something else than heads");
    if (attr<tenon_gate_attr>(node, kGate).group != 1) return sdk::refuse("columns share a gate");
    return sdk::offer();
  }

  void fill(const sdk::Node& node, DeltaPlan& plan) const override {
    plan.op.delta = attr<tenon_gated_delta_rule_attr>(node, kRule);
    plan.op.store = node.stores()[0];
    const tenon_node& rule = node.parts()[kRule];
    plan.op.codec[0] = codec_of(rule.weight[0].dtype), plan.op.codec[1] = codec_of(rule.weight[1].dtype);
    plan.query_norm = attr<tenon_norm_attr>(node, kQueryNorm), plan.key_norm = attr<tenon_norm_attr>(node, kKeyNorm);
    plan.out_norm = attr<tenon_norm_attr>(node, kOutNorm);
    plan.norm_codec = codec_of(node.parts()[kOutNorm].weight[0].dtype);
    plan.activation = attr<tenon_gate_attr>(node, kGate).activation;
    plan.encoding = node.parts().size() > kEncode ? node.parts()[kEncode].out[0].encoding : uint32_t(TENON_ENC_NONE);
    const auto& at = text().statements;
    plan.query = at[kQueryNorm].in[0], plan.key = at[kKeyNorm].in[0], plan.value = at[kRule].in[2];
    plan.beta = at[kRule].in[3], plan.alpha = at[kRule].in[4], plan.gate = at[kGate].in[1];
    plan.rate = at[kRule].weight[0], plan.bias = at[kRule].weight[1], plan.weight = at[kOutNorm].weight[0];
  }

  template <typename Attr>
  static const Attr& attr(const sdk::Node& node, size_t part) {
    return *static_cast<const Attr*>(node.parts()[part].attr);
  }
};

}  // namespace

void register_delta_chains(sdk::Registrar& registrar) {
  for (const auto& one : kTexts) register_composite<DeltaChainKernel>(registrar, one.name, one.text);
}

}  // namespace tenon::cuda
