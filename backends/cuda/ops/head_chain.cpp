// Which forms that part of an attention has, and which nodes the kernel takes.
#include "head_chain.hpp"

#include <algorithm>

#include "composite_kernel.hpp"
#include "row_shape.hpp"

namespace tenon::cuda {
namespace {

// In the order in which architectures add these nodes.
constexpr struct {
  const char *name, *text;
} kTexts[] = {
    {"norm_rope_kv_write", "a = norm(q; v); b = norm(k; w); c = rope(a; f); d = rope(b; f); kv_write(d, x; ; s) -> c"},
    {"norm_rope_kv_write_by_turns", "a = norm(q; v); c = rope(a; f); b = norm(k; w); d = rope(b; f); kv_write(d, x; ; s) -> c"},
    {"norm_rope_kv_write_queries_last",
     "b = norm(k; w); d = rope(b; f); e = norm(x); kv_write(d, e; ; s); a = norm(q; v); c = rope(a; f) -> c"},
    {"rope_kv_write", "c = rope(q; f); d = rope(k; f); kv_write(d, x; ; s) -> c"},
    {"bias_rope_kv_write",
     "a = add(q; t); b = add(k; u); e = add(x; v); c = rope(a; f); d = rope(b; f); kv_write(d, e; ; s) -> c"},
    {"norm_rope", "a = norm(q; v); c = rope(a; f) -> c"},
};

const tenon_node* part_with(const sdk::Node& node, uint32_t op) {
  for (const tenon_node& part : node.parts())
    if (part.op == op) return &part;
  return nullptr;
}

class HeadChainKernel final : public CompositeKernel<HeadPlan> {
 public:
  explicit HeadChainKernel(std::string_view text) : CompositeKernel(text, launch_head_chain) {}

 private:
  sdk::Offer check(const sdk::Node& node) const override {
    for (const tenon_node& part : node.parts()) {
      const sdk::Node one(&part);
      sdk::Offer offer = part.op == TENON_OP_NORM   ? accept_norm(one)
                         : part.op == TENON_OP_ROPE ? accept_rope(one)
                         : part.op == TENON_OP_ADD  ? accept_pair(one)
                                                    : accept_kv_write(one);
      if (offer.refused()) return offer;
    }
    if (!node.stores().empty() && node.stores()[0].kind != TENON_STORE_PAGED)
      return sdk::refuse("writes keys and values of their own heads");
    HeadPlan plan = {};
    fill(node, plan);
    for (const HeadPath& path : plan.path) {
      if (!path.heads) continue;
      if (path.dim % kFour || path.dim > int32_t(kMaxChainHead))
        return sdk::refuse("heads of %d columns: multiples of 4 up to %u are served", path.dim, kMaxChainHead);
      if (path.has_norm && path.norm.group != uint32_t(path.dim)) return sdk::refuse("norms over something else than heads");
      if (path.frequencies >= 0 && path.rope.head_dim != uint32_t(path.dim))
        return sdk::refuse("turns heads of %u columns where others have %d", path.rope.head_dim, path.dim);
    }
    return sdk::offer();
  }

  void fill(const sdk::Node& node, HeadPlan& plan) const override {
    const tenon_node* write = part_with(node, TENON_OP_KV_WRITE);
    const tenon_node& rope = *part_with(node, TENON_OP_ROPE);
    const auto dim = int32_t(static_cast<const tenon_rope_attr*>(rope.attr)->head_dim);
    plan.path[kQueryPath] = path_to(text().out[0], node, dim);
    plan.path[kQueryPath].out = 0;
    if (!write) return;
    const auto& attr = *static_cast<const tenon_kv_write_attr*>(write->attr);
    const auto statement = std::find_if(text().statements.begin(), text().statements.end(),
                                        [](const auto& one) { return one.op == "kv_write"; });
    plan.path[kKeyPath] = path_to(statement->in[0], node, int32_t(attr.head_dim));
    plan.path[kValuePath] = path_to(statement->in[1], node, int32_t(attr.head_dim_v));
    plan.op.store = node.stores()[0];
    plan.op.codec[0] = codec_of(plan.op.store.dtype_k), plan.op.codec[1] = codec_of(plan.op.store.dtype_v);
  }

  // From the value that a path ends with back to the projection that it begins with.
  HeadPath path_to(int value, const sdk::Node& node, int32_t dim) const {
    HeadPath path = {};
    path.in = path.bias = path.weight = path.frequencies = path.out = -1;
    path.dim = dim;
    for (int giver = text().giver(value); giver >= 0; giver = text().giver(value)) {
      const CompositeText::Statement& statement = text().statements[size_t(giver)];
      const tenon_node& part = node.parts()[size_t(giver)];
      const int32_t weight = statement.weight.empty() ? -1 : statement.weight[0];
      const Codec codec = weight < 0 ? Codec::kNone : codec_of(part.weight[0].dtype);
      if (part.op == TENON_OP_ROPE) {
        path.rope = *static_cast<const tenon_rope_attr*>(part.attr);
        path.frequencies = weight, path.frequency_codec = codec;
      } else if (part.op == TENON_OP_NORM) {
        path.norm = *static_cast<const tenon_norm_attr*>(part.attr);
        if (!path.norm.group) path.norm.group = uint32_t(part.in[0].cols);
        path.has_norm = true, path.weight = weight, path.weight_codec = codec;
      } else {
        path.bias = weight, path.bias_codec = codec;
      }
      value = statement.in[0];
    }
    path.in = value;
    path.heads = dim ? int32_t(node.in()[size_t(value)].cols / dim) : 0;
    return path;
  }
};

}  // namespace

void register_head_chains(sdk::Registrar& registrar) {
  for (const auto& one : kTexts) register_composite<HeadChainKernel>(registrar, one.name, one.text);
}

}  // namespace tenon::cuda
