// rope, kv_write and attention: which nodes they serve, how they are cut, and the sizes of their buffers.
#include <algorithm>

#include "op_entry.hpp"

namespace tenon::cpu {
namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }

uint64_t floats(int64_t n) { return uint64_t(n) * sizeof(float); }

// A view whose heads each lie without a gap.
bool whole_heads(const tenon_type& type, int64_t head_dim) {
  return type.cols % head_dim == 0 && type.cols / std::max<int64_t>(1, type.groups) % head_dim == 0;
}

// The dtype's rows of `cols` numbers can be written and read.
std::string complaint_about(uint32_t dtype, int64_t cols, bool writes) {
  const tenon_dtype* record = record_of(dtype);
  if (!record) return sdk::text("the store's dtype %u is unknown", dtype);
  if (is_float(dtype)) return {};
  if (record->n_plane > 1 || !record->decode || (writes && !record->encode))
    return name_of(dtype) + (writes ? " has no encoder for a store" : " has no decoder for a store");
  if (cols % record->block_cols != 0)
    return sdk::text("%lld columns are no whole number of blocks of %s", wide(cols), name_of(dtype).c_str());
  return {};
}

}  // namespace

sdk::Offer accept_rope(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_rope_attr>();
  if (attr.head_dim == 0 || attr.n_rot == 0 || attr.n_rot % 2 != 0 || attr.n_rot > attr.head_dim)
    return sdk::refuse("%u turned columns in heads of %u", attr.n_rot, attr.head_dim);
  if (attr.style != TENON_ROPE_HALF && attr.style != TENON_ROPE_ADJACENT)
    return sdk::refuse("rope style %u", attr.style);
  if (!whole_heads(node.in()[0], attr.head_dim) || !whole_heads(node.out()[0], attr.head_dim))
    return sdk::refuse("a view of %lld columns in %lld groups tears heads of %u", wide(node.in()[0].cols),
                       wide(node.in()[0].groups), attr.head_dim);
  const tenon_weight& w = node.weights()[0];
  if (w.dtype != TENON_DTYPE_F32) return sdk::refuse("inverse frequencies are f32, not %s", name_of(w.dtype).c_str());
  if (w.rows * w.cols < attr.n_rot / 2)
    return sdk::refuse("%lld inverse frequencies for %u pairs", wide(w.rows * w.cols), attr.n_rot / 2);
  return sdk::offer();
}

sdk::Offer accept_kv_write(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_kv_write_attr>();
  const tenon_store_type& type = node.stores()[0];
  const bool is_latent = type.kind == TENON_STORE_LATENT;
  if ((type.kind != TENON_STORE_PAGED && !is_latent) || type.layout != 0)
    return sdk::refuse("writes paged and latent stores of layout 0");
  if (is_latent) {
    if (!whole_heads(node.in()[0], attr.head_dim)) return sdk::refuse("a view tears rows of %u", attr.head_dim);
    const std::string why = complaint_about(type.dtype_k, attr.head_dim, true);
    return why.empty() ? sdk::offer() : sdk::Offer::refusal(why);
  }
  if (!whole_heads(node.in()[0], attr.head_dim) || !whole_heads(node.in()[1], attr.head_dim_v))
    return sdk::refuse("a view of K or V tears heads of %u and %u", attr.head_dim, attr.head_dim_v);
  for (const std::string& why :
       {complaint_about(type.dtype_k, attr.head_dim, true), complaint_about(type.dtype_v, attr.head_dim_v, true)})
    if (!why.empty()) return sdk::Offer::refusal(why);
  return sdk::offer();
}

sdk::Offer accept_attention(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_attention_attr>();
  const tenon_store_type& type = node.stores()[0];
  if (type.kind != TENON_STORE_PAGED || type.layout != 0) return sdk::refuse("reads paged stores of layout 0");
  if (attr.kv_heads == 0 || attr.heads % attr.kv_heads != 0)
    return sdk::refuse("%u heads are no multiple of %u K/V heads", attr.heads, attr.kv_heads);
  if (attr.head_dim == 0 || attr.head_dim % 16 != 0 || attr.head_dim_v == 0 || attr.head_dim_v % 16 != 0)
    return sdk::refuse("heads of %u and %u are no multiples of 16", attr.head_dim, attr.head_dim_v);
  if (!whole_heads(node.in()[0], attr.head_dim) || !whole_heads(node.out()[0], attr.head_dim_v))
    return sdk::refuse("a view of the queries or the output tears heads of %u and %u", attr.head_dim, attr.head_dim_v);
  for (const std::string& why :
       {complaint_about(type.dtype_k, attr.head_dim, false), complaint_about(type.dtype_v, attr.head_dim_v, false)})
    if (!why.empty()) return sdk::Offer::refusal(why);
  return sdk::offer();
}

sdk::Offer accept_latent_attention(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_latent_attention_attr>();
  const tenon_store_type& type = node.stores()[0];
  const int64_t cols = int64_t(attr.rank) + attr.rope_dim;
  if (type.kind != TENON_STORE_LATENT || type.layout != 0) return sdk::refuse("reads latent stores of layout 0");
  if (attr.heads == 0 || attr.rank == 0 || attr.rank % 16 != 0 || cols % 16 != 0)
    return sdk::refuse("a rank of %u in rows of %lld: multiples of 16 are served", attr.rank, wide(cols));
  if (!whole_heads(node.in()[0], cols) || !whole_heads(node.out()[0], attr.rank))
    return sdk::refuse("a view of the queries or the output tears heads of %lld and %u", wide(cols), attr.rank);
  const std::string why = complaint_about(type.dtype_k, cols, false);
  return why.empty() ? sdk::offer() : sdk::Offer::refusal(why);
}

// A decode step cuts heads, as attention does; a prompt is cut by rows.
void plan_rope(const sdk::Node& node, OpPlan& op, uint64_t& scratch) {
  scratch = rope_scratch(op.rope);
  op.partition = node.decode() ? TENON_PART_HEADS : TENON_PART_ROWS;
  op.n_units = node.decode() ? node.in()[0].cols / op.rope.head_dim : 0;
}

void plan_kv_write(const sdk::Node& node, OpPlan& op, uint64_t&) {
  op.partition = node.decode() ? TENON_PART_HEADS : TENON_PART_ROWS;
  op.n_units = node.decode() ? op.kv_write.kv_heads : 0;
  op.dtype_id[0] = node.stores()[0].dtype_k, op.dtype_id[1] = node.stores()[0].dtype_v;
  for (int i = 0; i < 2; ++i) op.dtype[i] = record_of(op.dtype_id[i]);
}

void plan_attention(const sdk::Node& node, OpPlan& op, uint64_t& scratch) {
  op.partition = node.decode() ? TENON_PART_HEADS : TENON_PART_CLAIM;
  op.n_units = node.decode() ? op.attention.heads : 0;
  op.dtype_id[0] = node.stores()[0].dtype_k, op.dtype_id[1] = node.stores()[0].dtype_v;
  for (int i = 0; i < 2; ++i) op.dtype[i] = record_of(op.dtype_id[i]);
  if (!op.is_latent) op.value_cols = op.attention.head_dim_v;
  scratch = node.decode() ? attention_decode_scratch(op.attention, op.value_cols)
                          : attention_prefill_scratch(op.attention, op.value_cols);
}

// Attention over one K/V head whose values are the first columns of its keys.
void plan_latent_attention(const sdk::Node& node, OpPlan& op, uint64_t& scratch) {
  const tenon_latent_attention_attr latent = op.latent;
  op.attention = {};
  op.attention.struct_size = sizeof op.attention, op.attention.heads = latent.heads, op.attention.kv_heads = 1;
  op.attention.head_dim = latent.rank + latent.rope_dim, op.attention.head_dim_v = latent.rank;
  op.attention.scale = latent.scale;
  op.is_latent = 1, op.value_cols = op.attention.head_dim;
  plan_attention(node, op, scratch);
}

uint64_t rope_scratch(const tenon_rope_attr& attr) { return uint64_t(2 * TENON_ALIGN64(attr.n_rot / 2 * 4)); }

// sums [64][dim_v], scores [64][64], eight keys, a tile of values.
uint64_t attention_decode_scratch(const tenon_attention_attr& attr, int64_t value_cols) {
  return floats(64 * int64_t(attr.head_dim_v) + 64 * 64 + 8 * int64_t(attr.head_dim) + 64 * value_cols);
}

// queries [64][dim], keys [dim][64], a tile of values or keys, scores [64][64], sums [64][dim_v].
uint64_t attention_prefill_scratch(const tenon_attention_attr& attr, int64_t value_cols) {
  const int64_t dim = attr.head_dim, dim_v = attr.head_dim_v;
  return floats(64 * dim + 64 * dim + 64 * std::max(dim, value_cols) + 64 * 64 + 64 * dim_v);
}

}  // namespace tenon::cpu
