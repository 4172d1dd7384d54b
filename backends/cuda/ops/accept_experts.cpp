// What the ops of mixtures of experts ask of their nodes.
#include <string>

#include "expert_limits.hpp"
#include "ops.hpp"
#include "packed.hpp"

namespace tenon::cuda {
namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }
std::string name_of(uint32_t dtype) { return std::string(sdk::dtype_name(dtype)); }

sdk::Offer refuse_encodings(const sdk::Node& node) {
  return sdk::refuse("op %u with an input or output that is encoded", node.op());
}

}  // namespace

sdk::Offer accept_route(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_route_attr>();
  const int64_t n = node.in()[0].cols;
  if (node.in()[0].encoding != TENON_ENC_F32 || node.out()[0].encoding != TENON_ENC_I32 ||
      node.out()[1].encoding != TENON_ENC_F32)
    return refuse_encodings(node);
  if (attr.gating > 1) return sdk::refuse("gating %u", attr.gating);
  if (n > kMaxExperts || attr.top_k > uint32_t(kMaxTopK))
    return sdk::refuse("%u of %lld experts: up to %d of %d are served", attr.top_k, wide(n), kMaxTopK, kMaxExperts);
  if (attr.top_k < 1 || int64_t(attr.top_k) > n)
    return sdk::refuse("cannot choose %u of %lld experts", attr.top_k, wide(n));
  for (const tenon_weight& w : node.weights())
    if (!is_float(codec_of(w.dtype)) || w.rows * w.cols != n)
      return sdk::refuse("a table of %lld entries of %s for %lld experts", wide(w.rows * w.cols),
                         name_of(w.dtype).c_str(), wide(n));
  return sdk::offer();
}

sdk::Offer accept_fold_slots(const sdk::Node& node) {
  for (const auto& x : {node.in()[0], node.in()[1], node.out()[0]})
    if (x.encoding != TENON_ENC_F32) return refuse_encodings(node);
  if (node.in()[0].cols != node.in()[1].cols * node.out()[0].cols)
    return sdk::refuse("%lld columns are no %lld slots of %lld", wide(node.in()[0].cols), wide(node.in()[1].cols),
                       wide(node.out()[0].cols));
  return sdk::offer();
}

namespace {

// What all kernels of expert_ffn ask, the first input's encoding aside; "" if it holds.
std::string not_experts(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_expert_ffn_attr>();
  const auto in = node.in();
  if (in[1].encoding != TENON_ENC_I32 || in[2].encoding != TENON_ENC_F32 || node.out()[0].encoding != TENON_ENC_F32)
    return "an input or output that is encoded";
  if (node.weights().size() != 3) return sdk::text("%u weights", unsigned(node.weights().size()));
  const tenon_weight &gate = node.weights()[0], &up = node.weights()[1], &down = node.weights()[2];
  if (attr.activation > TENON_ACT_SWIGLU_OAI) return sdk::text("activation %u", attr.activation);
  if (attr.combine > 1) return sdk::text("combine %u", attr.combine);
  if (in[1].cols < 1 || in[1].cols > kMaxTopK || in[2].cols != in[1].cols)
    return sdk::text("%lld ids and %lld weights a row: 1 to %d are served", wide(in[1].cols), wide(in[2].cols),
                     kMaxTopK);
  const int64_t slots = attr.combine ? in[1].cols : 1;
  if (gate.cols != in[0].cols || up.cols != gate.cols || up.rows != gate.rows || down.cols != gate.rows ||
      node.out()[0].cols != down.rows * slots)
    return sdk::text("gate %lld by %lld, up %lld by %lld, down %lld by %lld and a row of %lld do not fit",
                     wide(gate.rows), wide(gate.cols), wide(up.rows), wide(up.cols), wide(down.rows), wide(down.cols),
                     wide(in[0].cols));
  for (const tenon_weight& w : node.weights()) {
    if (w.n_expert == 0 || w.n_expert != gate.n_expert || w.n_expert > uint32_t(kMaxExperts))
      return sdk::text("stacks of %u experts, at most %d are served", w.n_expert, kMaxExperts);
    if (codec_of(w.dtype) == Codec::kNone) return "no device code decodes " + name_of(w.dtype);
  }
  return {};
}

// The cost, and the packed form of what has one: all kernels of the model read the same.
sdk::Offer offer_experts(const sdk::Node& node) {
  sdk::Offer offer = sdk::offer().flag(TENON_OFFER_PARTIAL_BANK);
  double bytes = 0;
  for (size_t i = 0; i < 3; ++i) {
    const tenon_weight& w = node.weights()[i];
    if (has_packed_form(codec_of(w.dtype))) offer.packs(int(i), kPackedLayout);
    bytes += double(w.rows) * double(w.row_bytes) * double(node.in()[1].cols);
  }
  return offer.cost(bytes);
}

}  // namespace

sdk::Offer accept_expert_ffn(const sdk::Node& node) {
  if (const std::string reason = not_experts(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  if (node.in()[0].encoding != TENON_ENC_F32) return sdk::refuse("reads f32, not encoding %u", node.in()[0].encoding);
  sdk::Offer offer = offer_experts(node);
  for (const tenon_weight& w : node.weights())
    if (!is_float(codec_of(w.dtype))) offer.flag(TENON_OFFER_DEQUANTIZES);
  return offer;
}

sdk::Offer accept_expert_ffn_q8(const sdk::Node& node) {
  if (const std::string reason = not_experts(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  const tenon_weight &gate = node.weights()[0], &up = node.weights()[1], &down = node.weights()[2];
  for (const tenon_weight& w : node.weights())
    if (!has_packed_form(codec_of(w.dtype))) return sdk::refuse("%s has no packed form here", name_of(w.dtype).c_str());
  if (gate.dtype != up.dtype)
    return sdk::refuse("gate and up of %s and %s", name_of(gate.dtype).c_str(), name_of(up.dtype).c_str());
  if (gate.cols % 32 != 0 || down.cols % 32 != 0)
    return sdk::refuse("rows of %lld and %lld are no whole number of groups of 32", wide(gate.cols), wide(down.cols));
  return offer_experts(node).reads(0, sdk::Encoding::kQ8_32);
}

uint64_t plan_expert_ffn(const sdk::Node& node, OpPlan& op) {
  const tenon_weight &gate = node.weights()[0], &down = node.weights()[2];
  const int64_t rows = op.max_rows, top_k = node.in()[1].cols;
  if (node.decode()) return uint64_t(expert_decode_bytes(rows, top_k, gate.rows));
  return uint64_t(expert_workspace(rows, top_k, gate.n_expert, gate.rows, down.rows).bytes);
}

uint64_t plan_expert_ffn_q8(const sdk::Node& node, OpPlan& op) {
  return uint64_t(op.max_rows * node.in()[1].cols * tenon_encoding_row_bytes(TENON_ENC_Q8_32, node.weights()[0].rows));
}

}  // namespace tenon::cuda
