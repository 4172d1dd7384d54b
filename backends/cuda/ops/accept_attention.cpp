// What kv_write, attention and latent_attention ask of their nodes, and the plan of attention.
#include <algorithm>
#include <string>

#include "attention_limits.hpp"
#include "cell_types.hpp"
#include "ops.hpp"

namespace tenon::cuda {
namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }

bool is_plain(const sdk::Node& node) {
  const auto is_f32 = [](const tenon_type& type) { return type.encoding == TENON_ENC_F32; };
  return std::all_of(node.in().begin(), node.in().end(), is_f32) &&
         std::all_of(node.out().begin(), node.out().end(), is_f32);
}

// "" if a cache can hold heads of `dim` numbers in that dtype.
std::string not_a_cell(uint32_t dtype, int64_t dim) {
  const Codec codec = codec_of(dtype);
  const std::string name(sdk::dtype_name(dtype));
  if (!cell_block_bytes(codec)) return "caches of " + name + " are not served";
  if (has_cell_blocks(codec) && dim % 32 != 0)
    return sdk::text("heads of %lld are no whole number of %s's blocks", wide(dim), name.c_str());
  return {};
}

// "" if the store is of that kind, as abi.h lays it out, and of dtypes that are served.
std::string not_stored(const sdk::Node& node, uint32_t kind, int64_t dim_k, int64_t dim_v) {
  const tenon_store_type& store = node.stores()[0];
  if (store.kind != kind || store.layout != 0 || store.heads == 0)
    return sdk::text("a store of kind %u, layout %u, %u heads", store.kind, store.layout, store.heads);
  std::string reason = not_a_cell(store.dtype_k, dim_k);
  if (reason.empty() && kind == TENON_STORE_PAGED) reason = not_a_cell(store.dtype_v, dim_v);
  return reason;
}

}  // namespace

sdk::Offer accept_kv_write(const sdk::Node& node) {
  if (!is_plain(node)) return sdk::refuse("values that are encoded");
  const auto& attr = node.attr<tenon_kv_write_attr>();
  const tenon_store_type& store = node.stores()[0];
  const bool is_latent = store.kind == TENON_STORE_LATENT;
  if (const std::string reason =
          not_stored(node, is_latent ? TENON_STORE_LATENT : TENON_STORE_PAGED, attr.head_dim, attr.head_dim_v);
      !reason.empty())
    return sdk::refuse("%s", reason.c_str());
  if (node.in().size() != (is_latent ? 1u : 2u)) return sdk::refuse("%u inputs", unsigned(node.in().size()));
  if (store.heads != attr.kv_heads || store.cols_k != int64_t(attr.kv_heads) * attr.head_dim ||
      (!is_latent && store.cols_v != int64_t(attr.kv_heads) * attr.head_dim_v))
    return sdk::refuse("the store has %u heads, %lld and %lld columns, the op %u heads of %u and %u", store.heads,
                       wide(store.cols_k), wide(store.cols_v), attr.kv_heads, attr.head_dim, attr.head_dim_v);
  return sdk::offer();
}

namespace {

// "" if the shape of heads is one that is served.
std::string not_heads(const tenon_attention_attr& attr) {
  if (attr.kv_heads == 0 || attr.heads % attr.kv_heads != 0)
    return sdk::text("%u heads do not divide over %u K/V heads", attr.heads, attr.kv_heads);
  if (attr.head_dim == 0 || attr.head_dim % 32 != 0 || attr.head_dim > kMaxKeyDim || attr.head_dim_v == 0 ||
      attr.head_dim_v % 32 != 0 || attr.head_dim_v > kMaxValueDim)
    return sdk::text("heads of %u and %u: multiples of 32 up to %u and %u are served", attr.head_dim, attr.head_dim_v,
                     kMaxKeyDim, kMaxValueDim);
  return {};
}

// "" if tensor cores can read the cache as it is, and a head of q and of the output lies in one piece.
std::string not_tensor(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_attention_attr>();
  const tenon_store_type& store = node.stores()[0];
  const Codec codec = codec_of(store.dtype_k);
  if (store.dtype_k != store.dtype_v || (codec != Codec::kF16 && codec != Codec::kBf16))
    return sdk::text("the cache is f16 or bf16, not %s and %s", std::string(sdk::dtype_name(store.dtype_k)).c_str(),
                     std::string(sdk::dtype_name(store.dtype_v)).c_str());
  if (attr.head_dim > kMaxValueDim) return sdk::text("heads of %u: up to %u are served", attr.head_dim, kMaxValueDim);
  const auto width = [](const tenon_type& type) { return type.cols / std::max<int64_t>(type.groups, 1); };
  const int64_t width_q = width(node.in()[0]), width_o = width(node.out()[0]);
  if (width_q % attr.head_dim != 0 || width_o % attr.head_dim_v != 0)
    return sdk::text("heads of %u and %u are cut by groups of %lld and %lld columns", attr.head_dim, attr.head_dim_v,
                     wide(width_q), wide(width_o));
  return not_heads(attr);
}

}  // namespace

sdk::Offer accept_attention(const sdk::Node& node) {
  if (!is_plain(node)) return sdk::refuse("values that are encoded");
  const auto& attr = node.attr<tenon_attention_attr>();
  if (const std::string reason = not_stored(node, TENON_STORE_PAGED, attr.head_dim, attr.head_dim_v); !reason.empty())
    return sdk::refuse("%s", reason.c_str());
  if (const std::string reason = not_heads(attr); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  return sdk::offer();
}

sdk::Offer accept_attention_split(const sdk::Node& node) {
  const sdk::Offer offer = accept_attention(node);
  if (offer.refused()) return offer;
  if (const std::string reason = not_tensor(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  return offer;
}

sdk::Offer accept_attention_tile(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_attention_attr>();
  const tenon_store_type& store = node.stores()[0];
  if (node.out()[0].encoding != TENON_ENC_F32) return sdk::refuse("an output that is encoded");
  if (const std::string reason = not_stored(node, TENON_STORE_PAGED, attr.head_dim, attr.head_dim_v); !reason.empty())
    return sdk::refuse("%s", reason.c_str());
  if (const std::string reason = not_tensor(node); !reason.empty()) return sdk::refuse("%s", reason.c_str());
  return sdk::offer().reads(0, codec_of(store.dtype_k) == Codec::kBf16 ? sdk::Encoding::kBf16 : sdk::Encoding::kF16);
}

uint64_t plan_attention_split(const sdk::Node&, OpPlan& op) {
  const tenon_attention_attr& attr = op.attention;
  // A span can reach a step's rows beyond the window and beyond the row.
  const int64_t context = op.max_context + op.max_rows;
  op.max_groups = uint32_t(attr.span_mask ? max_key_groups(context, 0) + 1 : max_key_groups(context, attr.window));
  const uint64_t row_bytes = uint64_t(attr.heads) * op.max_groups * partial_floats(attr.head_dim_v) * sizeof(float);
  op.split_rows = uint32_t(std::clamp<uint64_t>(kSplitWorkspaceBytes / row_bytes, 1, std::max(op.max_rows, 1u)));
  return op.split_rows * row_bytes;
}

sdk::Offer accept_latent_attention(const sdk::Node& node) {
  if (!is_plain(node)) return sdk::refuse("values that are encoded");
  const auto& attr = node.attr<tenon_latent_attention_attr>();
  const tenon_store_type& store = node.stores()[0];
  const int64_t cols = int64_t(attr.rank) + attr.rope_dim;
  if (const std::string reason = not_stored(node, TENON_STORE_LATENT, cols, 0); !reason.empty())
    return sdk::refuse("%s", reason.c_str());
  if (attr.rank == 0 || attr.rank > kMaxValueDim || cols > int64_t(kMaxKeyDim))
    return sdk::refuse("rows of %u and %u: up to %u, %u together, are served", attr.rank, attr.rope_dim, kMaxValueDim,
                       kMaxKeyDim);
  if (store.heads != 1 || store.cols_k != cols || attr.heads == 0)
    return sdk::refuse("the store has %u heads and rows of %lld, the op %u heads and rows of %lld", store.heads,
                       wide(store.cols_k), attr.heads, wide(cols));
  return sdk::offer();
}

uint64_t plan_attention(const sdk::Node& node, OpPlan& op) {
  op.split_rows = 0, op.max_groups = 0;
  const tenon_attention_attr& attr = op.attention;
  // A span can reach beyond the window and beyond the row, so its groups are not bounded here.
  if (!node.decode() || attr.span_mask) return 0;
  op.max_groups = uint32_t(max_key_groups(op.max_context + op.max_rows, attr.window));
  op.split_rows = std::min(op.max_rows, kMaxSplitRows);
  return uint64_t(op.split_rows) * attr.heads * op.max_groups * partial_floats(attr.head_dim_v) * sizeof(float);
}

// Attention of many heads to one, whose values are the first columns of its keys.
uint64_t plan_latent_attention(const sdk::Node& node, OpPlan& op) {
  const tenon_latent_attention_attr latent = op.latent;
  op.attention = {};
  op.attention.struct_size = sizeof op.attention, op.attention.heads = latent.heads, op.attention.kv_heads = 1;
  op.attention.head_dim = latent.rank + latent.rope_dim, op.attention.head_dim_v = latent.rank;
  op.attention.scale = latent.scale;
  return plan_attention(node, op);
}

}  // namespace tenon::cuda
