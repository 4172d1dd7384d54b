// What each op asks of its node, and why it refuses the others.
#include <algorithm>
#include <string>

#include "linear_bf16.hpp"
#include "ops.hpp"
#include "packed.hpp"

namespace tenon::cuda {
namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }
std::string name_of(uint32_t dtype) { return std::string(sdk::dtype_name(dtype)); }

// "" if every value is f32 (the first `ids` inputs: i32), else what is not.
std::string not_plain(const sdk::Node& node, size_t ids = 0) {
  for (size_t i = 0; i < node.in().size(); ++i) {
    const uint32_t wanted = i < ids ? TENON_ENC_I32 : TENON_ENC_F32;
    if (node.in()[i].encoding != wanted)
      return sdk::text("input %d has encoding %u, expected %u", int(i), node.in()[i].encoding, wanted);
  }
  for (size_t i = 0; i < node.out().size(); ++i)
    if (node.out()[i].encoding != TENON_ENC_F32)
      return sdk::text("output %d has encoding %u, expected f32", int(i), node.out()[i].encoding);
  return {};
}

// A weight has one form for all kernels of a model, so whoever can read the packed one asks for it.
void pack_blocks(const sdk::Node& node, sdk::Offer& offer) {
  for (size_t i = 0; i < node.weights().size(); ++i)
    if (has_packed_form(codec_of(node.weights()[i].dtype))) offer.packs(int(i), kPackedLayout);
}

double bytes_of(const sdk::Node& node) {
  double bytes = 0;
  for (const tenon_weight& w : node.weights()) bytes += double(w.rows) * double(w.row_bytes);
  return bytes;
}

}  // namespace

#define TENON_REFUSE_UNLESS_PLAIN(node, ids) \
  if (const std::string reason = not_plain(node, ids); !reason.empty()) return sdk::refuse("%s", reason.c_str())

bool is_float(Codec codec) { return codec == Codec::kF32 || codec == Codec::kF16 || codec == Codec::kBf16; }

sdk::Offer accept_plain(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  return sdk::offer();
}

sdk::Offer accept_embed(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 1);
  const tenon_weight& table = node.weights()[0];
  if (codec_of(table.dtype) == Codec::kNone)
    return sdk::refuse("no device code decodes %s", name_of(table.dtype).c_str());
  sdk::Offer offer = sdk::offer();
  return table.layout == kPackedLayout ? offer.packs(0, kPackedLayout) : offer;  // a head's, where it is tied
}

sdk::Offer accept_encode(const sdk::Node& node) {
  const uint32_t encoding = node.attr<tenon_encode_attr>().encoding;
  if (node.in()[0].encoding != TENON_ENC_F32)
    return sdk::refuse("encodes from f32, not from encoding %u", node.in()[0].encoding);
  if (encoding != TENON_ENC_F32 && encoding != TENON_ENC_BF16 && encoding != TENON_ENC_F16 &&
      encoding != TENON_ENC_Q8_32)
    return sdk::refuse("encodes to f32, bf16, f16 and q8_32, not to encoding %u", encoding);
  if (encoding == TENON_ENC_Q8_32 && node.in()[0].cols % 32 != 0)
    return sdk::refuse("%lld columns are no whole number of blocks of 32", wide(node.in()[0].cols));
  return sdk::offer().emits(0, sdk::Encoding(encoding));
}

sdk::Offer accept_norm(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const auto& attr = node.attr<tenon_norm_attr>();
  const int64_t cols = node.in()[0].cols, group = attr.group ? attr.group : cols;
  if (attr.kind != TENON_NORM_RMS && attr.kind != TENON_NORM_L2) return sdk::refuse("norm kind %u", attr.kind);
  if (cols % group != 0)
    return sdk::refuse("%lld columns are no whole number of groups of %lld", wide(cols), wide(group));
  if (node.weights().empty()) return sdk::offer();
  const tenon_weight& w = node.weights()[0];
  if (!is_float(codec_of(w.dtype)))
    return sdk::refuse("the weight is f32, f16 or bf16, not %s", name_of(w.dtype).c_str());
  if (w.rows * w.cols != group)
    return sdk::refuse("the weight has %lld entries, a group %lld", wide(w.rows * w.cols), wide(group));
  return sdk::offer();
}

sdk::Offer accept_linear(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  bool decodes = false;
  if (node.weights().size() > 4) return sdk::refuse("%u weights", unsigned(node.weights().size()));
  for (const tenon_weight& w : node.weights()) {
    const Codec codec = codec_of(w.dtype);
    if (codec == Codec::kNone) return sdk::refuse("no device code decodes %s", name_of(w.dtype).c_str());
    if (w.cols != node.in()[0].cols)
      return sdk::refuse("a weight has %lld columns, the input %lld", wide(w.cols), wide(node.in()[0].cols));
    decodes = decodes || !is_float(codec);
  }
  sdk::Offer offer = sdk::offer().cost(bytes_of(node));
  pack_blocks(node, offer);
  return decodes ? offer.flag(TENON_OFFER_DEQUANTIZES) : offer;
}

namespace {

// "" if each weight of a linear has a row for every column of the input, and none is a router's: those are computed in f32.
std::string not_for_tensor_cores(const sdk::Node& node) {
  if (node.attr<tenon_linear_attr>().flags & TENON_WEIGHT_ROUTER) return "routers are computed in f32";
  if (node.weights().size() > 4) return sdk::text("%u weights", unsigned(node.weights().size()));
  for (const tenon_weight& w : node.weights()) {
    if (w.flags & TENON_WEIGHT_ROUTER) return "routers are computed in f32";
    if (w.cols != node.in()[0].cols)
      return sdk::text("a weight has %lld columns, the input %lld", wide(w.cols), wide(node.in()[0].cols));
  }
  return {};
}
bool has_few_rows(const sdk::Node& node) { return node.decode() || node.out()[0].domain == TENON_DOMAIN_OUTPUT_ROWS; }

}  // namespace

sdk::Offer accept_linear_q8(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  if (!has_few_rows(node)) return sdk::refuse("serves decode, and the rows of a prompt that logits are wanted of");
  if (const std::string reason = not_for_tensor_cores(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  for (const tenon_weight& w : node.weights())
    if (!has_packed_form(codec_of(w.dtype)))
      return sdk::refuse("%s has no packed form here", name_of(w.dtype).c_str());
  sdk::Offer offer = sdk::offer().reads(0, sdk::Encoding::kQ8_32).cost(bytes_of(node));
  pack_blocks(node, offer);
  return offer;
}

sdk::Offer accept_linear_fp8(const sdk::Node& node) {
  int n = 0;
  for (const tenon_weight& w : node.weights()) {
    n += is_fp8(codec_of(w.dtype));
    if (is_fp8(codec_of(w.dtype)) && w.cols % 16 != 0)
      return sdk::refuse("rows of %lld are no multiple of 16", wide(w.cols));
  }
  if (n == 0) return sdk::refuse("none of the weights is E4M3");
  return accept_linear(node);  // other weights of the node as in cuda.linear
}

sdk::Offer accept_linear_bf16(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  if (has_few_rows(node)) return sdk::refuse("serves rows of prompts");
  if (const std::string reason = not_for_tensor_cores(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  for (const tenon_weight& w : node.weights()) {
    const Codec codec = codec_of(w.dtype);
    if (codec == Codec::kF32) return sdk::refuse("f32 weights are not rounded");
    if (codec == Codec::kNone) return sdk::refuse("no device code decodes %s", name_of(w.dtype).c_str());
  }
  sdk::Offer offer = sdk::offer().reads(0, sdk::Encoding::kBf16).flag(TENON_OFFER_BF16_WEIGHTS).cost(bytes_of(node));
  pack_blocks(node, offer);
  return offer;
}

uint64_t plan_linear_bf16(const sdk::Node& node, OpPlan&) {
  int64_t most = 0;
  for (const tenon_weight& w : node.weights()) {
    const Codec codec = codec_of(w.dtype);
    if (!has_packed_form(codec) && !is_read_as_bf16(w, codec))
      most = std::max(most, decoded_rows(w.rows, w.cols) * decoded_row_bytes(w.cols));
  }
  return uint64_t(most);
}

sdk::Offer accept_glu(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const uint32_t activation = node.attr<tenon_glu_attr>().activation;
  if (activation > TENON_ACT_SWIGLU_OAI) return sdk::refuse("activation %u", activation);
  return sdk::offer();
}

sdk::Offer accept_gate(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const auto& attr = node.attr<tenon_gate_attr>();
  const int64_t cols = node.in()[0].cols, group = attr.group ? attr.group : cols;
  if (attr.activation != TENON_ACT_SIGMOID && attr.activation != TENON_ACT_SILU)
    return sdk::refuse("activation %u: only sigmoid and silu", attr.activation);
  if (cols % group != 0 || node.in()[1].cols != cols / group)
    return sdk::refuse("%lld columns, groups of %lld and %lld gates do not fit", wide(cols), wide(group),
                       wide(node.in()[1].cols));
  return sdk::offer();
}

sdk::Offer accept_pair(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  if (node.weights().empty()) return sdk::offer();
  const tenon_weight& w = node.weights()[0];
  if (!is_float(codec_of(w.dtype)))
    return sdk::refuse("the weight is f32, f16 or bf16, not %s", name_of(w.dtype).c_str());
  const bool is_one = w.rows * w.cols == 1 && node.op() == TENON_OP_MUL;
  if (!is_one && w.rows * w.cols != node.in()[0].cols)
    return sdk::refuse("the weight has %lld entries: 1 or %lld expected", wide(w.rows * w.cols),
                       wide(node.in()[0].cols));
  return sdk::offer();
}

sdk::Offer accept_rope(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const auto& attr = node.attr<tenon_rope_attr>();
  if (attr.style != TENON_ROPE_HALF && attr.style != TENON_ROPE_ADJACENT)
    return sdk::refuse("rope style %u", attr.style);
  if (attr.head_dim == 0 || node.in()[0].cols % attr.head_dim != 0 || attr.n_rot % 2 != 0 || attr.n_rot > attr.head_dim)
    return sdk::refuse("%lld columns, heads of %u and %u turning columns do not fit", wide(node.in()[0].cols),
                       attr.head_dim, attr.n_rot);
  const tenon_weight& w = node.weights()[0];
  if (!is_float(codec_of(w.dtype)) || w.rows * w.cols < int64_t(attr.n_rot / 2))
    return sdk::refuse("%lld frequencies of dtype %s for %u pairs", wide(w.rows * w.cols), name_of(w.dtype).c_str(),
                       attr.n_rot / 2);
  return sdk::offer();
}

sdk::Offer accept_short_conv(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const auto& attr = node.attr<tenon_short_conv_attr>();
  const tenon_store_type& store = node.stores()[0];
  const tenon_weight& w = node.weights()[0];
  if (attr.taps < 2) return sdk::refuse("%u taps", attr.taps);
  if (attr.activation != TENON_ACT_NONE && attr.activation != TENON_ACT_SILU)
    return sdk::refuse("activation %u: only none and silu", attr.activation);
  if (!is_float(codec_of(w.dtype)) || w.rows * w.cols != node.in()[0].cols * int64_t(attr.taps))
    return sdk::refuse("a weight of %lld entries of dtype %s for %lld channels of %u taps", wide(w.rows * w.cols),
                       name_of(w.dtype).c_str(), wide(node.in()[0].cols), attr.taps);
  if (store.kind != TENON_STORE_CONV || store.layout != 0 || store.cols_k != node.in()[0].cols ||
      store.cols_v != int64_t(attr.taps) - 1)
    return sdk::refuse("a store of kind %u, layout %u, %lld channels and %lld rows", store.kind, store.layout,
                       wide(store.cols_k), wide(store.cols_v));
  return sdk::offer();
}

sdk::Offer accept_delta(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  const auto& attr = node.attr<tenon_gated_delta_rule_attr>();
  const tenon_store_type& store = node.stores()[0];
  if (attr.key_heads == 0 || attr.value_heads % attr.key_heads != 0)
    return sdk::refuse("%u value heads do not divide over %u key heads", attr.value_heads, attr.key_heads);
  if (attr.key_dim == 0 || attr.key_dim > 256) return sdk::refuse("keys of %u: up to 256 are served", attr.key_dim);
  if (attr.head_map != TENON_HEAD_MAP_DIV && attr.head_map != TENON_HEAD_MAP_MOD)
    return sdk::refuse("head map %u", attr.head_map);
  for (const tenon_weight& w : node.weights())
    if (!is_float(codec_of(w.dtype)) || w.rows * w.cols != int64_t(attr.value_heads))
      return sdk::refuse("a weight of %lld entries of dtype %s for %u heads", wide(w.rows * w.cols),
                         name_of(w.dtype).c_str(), attr.value_heads);
  const int64_t tape = int64_t(attr.key_heads) * attr.key_dim + int64_t(attr.value_heads) * (attr.value_dim + 2);
  if (store.kind != TENON_STORE_RECURRENT || store.layout != 0 || store.tape_cols != tape ||
      store.cols_k != int64_t(attr.value_heads) * attr.key_dim || store.cols_v != int64_t(attr.value_dim))
    return sdk::refuse(
        "a store of kind %u, layout %u, %lld by %lld, whose tape rows hold %lld numbers; the op has %lld", store.kind,
        store.layout, wide(store.cols_k), wide(store.cols_v), wide(store.tape_cols), wide(tape));
  return sdk::offer();
}

sdk::Offer accept_logits_tail(const sdk::Node& node) {
  TENON_REFUSE_UNLESS_PLAIN(node, 0);
  if (!node.weights().empty() && node.weights()[0].dtype != TENON_DTYPE_I32)
    return sdk::refuse("ids are i32, not %s", name_of(node.weights()[0].dtype).c_str());
  return sdk::offer();
}

}  // namespace tenon::cuda
