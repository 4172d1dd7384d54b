#include "ops.hpp"

#include <fmt/format.h>

#include <array>

namespace tenon::graph {
namespace {

template <typename T>
const T& attr_of(const Signature& s) {
  return *static_cast<const T*>(s.attr);
}

Value like(const Value& x, int64_t cols) {
  Value out;
  out.domain = x.domain;
  out.cols = cols;
  return out;
}

std::string need_f32(const Signature& s) {
  for (size_t i = 0; i < s.in.size(); ++i)
    if (s.in[i]->encoding != TENON_ENC_F32) return fmt::format("input {} is not f32", i);
  return "";
}

std::string same_shape(const Signature& s) {
  if (s.in[0]->cols != s.in[1]->cols)
    return fmt::format("inputs have {} and {} columns", s.in[0]->cols, s.in[1]->cols);
  if (s.in[0]->domain != s.in[1]->domain) return "inputs stand for different rows";
  return "";
}

std::string infer_embed(Signature& s) {
  if (s.in[0]->encoding != TENON_ENC_I32) return "the first input must be token ids";
  if (s.in.size() > 1 && s.in[1]->input != TENON_INPUT_OVERLAY) return "the second input must be the overlay";
  if (s.in.size() > 1 && s.in[1]->cols != s.weight[0]->cols)
    return fmt::format("an overlay of {} columns over a table of {}", s.in[1]->cols, s.weight[0]->cols);
  Value out;
  out.cols = s.weight[0]->cols;
  s.out = {out};
  return "";
}

std::string infer_encode(Signature& s) {
  const auto encoding = attr_of<tenon_encode_attr>(s).encoding;
  if (encoding == TENON_ENC_Q8_32 && s.in[0]->cols % 32)
    return fmt::format("q8_32 needs a multiple of 32 columns, not {}", s.in[0]->cols);
  s.out = {like(*s.in[0], s.in[0]->cols)};
  s.out[0].encoding = encoding;
  return "";
}

std::string infer_norm(Signature& s) {
  const auto& a = attr_of<tenon_norm_attr>(s);
  const int64_t group = a.group ? a.group : s.in[0]->cols;
  if (s.in[0]->cols % group) return fmt::format("{} columns are no multiple of the group {}", s.in[0]->cols, group);
  if (!s.weight.empty() && s.weight[0]->rows * s.weight[0]->cols != group)
    return fmt::format("weight {} has {} entries, expected {}", s.weight[0]->name,
                       s.weight[0]->rows * s.weight[0]->cols, group);
  s.out = {like(*s.in[0], s.in[0]->cols)};
  return need_f32(s);
}

std::string infer_linear(Signature& s) {
  for (const Weight* w : s.weight) {
    if (w->cols != s.in[0]->cols)
      return fmt::format("weight {} has {} columns, its input {}", w->name, w->cols, s.in[0]->cols);
    s.out.push_back(like(*s.in[0], w->rows));
  }
  return need_f32(s);
}

std::string infer_pair(Signature& s) {
  s.out = {like(*s.in[0], s.in[0]->cols)};
  if (auto fault = same_shape(s); !fault.empty()) return fault;
  return need_f32(s);
}

std::string infer_gate(Signature& s) {
  const auto& a = attr_of<tenon_gate_attr>(s);
  if (!a.group || s.in[0]->cols != s.in[1]->cols * int64_t(a.group))
    return fmt::format("{} gates of {} columns do not cover {} columns", s.in[1]->cols, a.group, s.in[0]->cols);
  s.out = {like(*s.in[0], s.in[0]->cols)};
  return need_f32(s);
}

std::string infer_mul(Signature& s) {
  s.out = {like(*s.in[0], s.in[0]->cols)};
  if (s.in.size() + s.weight.size() != 2) return "mul takes two inputs, or an input and a weight";
  if (s.in.size() == 2) {
    if (auto fault = same_shape(s); !fault.empty()) return fault;
  } else if (const int64_t n = s.weight[0]->rows * s.weight[0]->cols; n != 1 && n != s.in[0]->cols) {
    return fmt::format("weight {} has {} entries, expected 1 or {}", s.weight[0]->name, n, s.in[0]->cols);
  }
  return need_f32(s);
}

std::string infer_add(Signature& s) {
  if (s.in.size() + s.weight.size() != 2) return "add takes two inputs, or an input and a weight";
  if (s.in.size() == 2) return infer_pair(s);
  s.out = {like(*s.in[0], s.in[0]->cols)};
  if (const int64_t n = s.weight[0]->rows * s.weight[0]->cols; n != s.in[0]->cols)
    return fmt::format("weight {} has {} entries, expected {}", s.weight[0]->name, n, s.in[0]->cols);
  return need_f32(s);
}

std::string infer_same(Signature& s) {
  s.out = {like(*s.in[0], s.in[0]->cols)};
  return need_f32(s);
}

std::string infer_concat(Signature& s) {
  if (s.in[0]->domain != s.in[1]->domain) return "inputs stand for different rows";
  s.out = {like(*s.in[0], s.in[0]->cols + s.in[1]->cols)};
  return need_f32(s);
}

std::string infer_rope(Signature& s) {
  const auto& a = attr_of<tenon_rope_attr>(s);
  if (!a.head_dim || s.in[0]->cols % a.head_dim)
    return fmt::format("{} columns are no multiple of the head width {}", s.in[0]->cols, a.head_dim);
  if (a.n_rot % 2 || !a.n_rot || a.n_rot > a.head_dim)
    return fmt::format("{} rotary columns in a head of {}", a.n_rot, a.head_dim);
  if (s.weight[0]->rows * s.weight[0]->cols != a.n_rot / 2)
    return fmt::format("{} inverse frequencies, expected {}", s.weight[0]->rows * s.weight[0]->cols, a.n_rot / 2);
  if (s.weight.size() == 2) {
    const Weight& divisor = *s.weight[1];
    if (!s.weight[0]->is_constant || divisor.is_constant) return "a divisor is a tensor, and divides a constant";
    if (const int64_t n = divisor.rows * divisor.cols; n < a.n_rot / 2)
      return fmt::format("weight {} has {} entries, expected {} or more", divisor.name, n, a.n_rot / 2);
  }
  s.out = {like(*s.in[0], s.in[0]->cols)};
  return need_f32(s);
}

std::string infer_kv_write(Signature& s) {
  const Store& store = *s.store[0];
  if (!is_paged(store.kind)) return "kv_write needs a paged or a latent store";
  if (const size_t n = store.kind == TENON_STORE_LATENT ? 1 : 2; s.in.size() != n)
    return fmt::format("{} inputs, expected {}", s.in.size(), n == 1 ? "the rows of a latent store" : "k and v");
  const int64_t v_cols = s.in.size() > 1 ? s.in[1]->cols : 0;
  if (s.in[0]->cols != store.cols_k || v_cols != store.cols_v)
    return fmt::format("k and v have {} and {} columns, the store {} and {}", s.in[0]->cols, v_cols, store.cols_k,
                       store.cols_v);
  const auto& a = attr_of<tenon_kv_write_attr>(s);
  if (a.kv_heads != store.heads || int64_t(a.kv_heads) * a.head_dim != store.cols_k ||
      int64_t(a.kv_heads) * a.head_dim_v != store.cols_v)
    return "heads and widths do not fit the store";
  return need_f32(s);
}

std::string infer_attention(Signature& s) {
  const auto& a = attr_of<tenon_attention_attr>(s);
  const Store& store = *s.store[0];
  if (store.kind != TENON_STORE_PAGED) return "attention needs a paged store";
  if (!a.kv_heads || !a.heads || a.heads % a.kv_heads)
    return fmt::format("{} heads cannot share {} K/V heads", a.heads, a.kv_heads);
  if (s.in[0]->cols != int64_t(a.heads) * a.head_dim)
    return fmt::format("q has {} columns, expected {} heads of {}", s.in[0]->cols, a.heads, a.head_dim);
  if (store.heads != a.kv_heads || store.cols_k != int64_t(a.kv_heads) * a.head_dim ||
      store.cols_v != int64_t(a.kv_heads) * a.head_dim_v)
    return "heads and widths do not fit the store";
  if (store.window && (a.window <= 0 || a.window > store.window))
    return fmt::format("a window of {} over a store that keeps {} tokens", a.window, store.window);
  s.out = {like(*s.in[0], int64_t(a.heads) * a.head_dim_v)};
  return need_f32(s);
}

std::string infer_latent_attention(Signature& s) {
  const auto& a = attr_of<tenon_latent_attention_attr>(s);
  const Store& store = *s.store[0];
  if (store.kind != TENON_STORE_LATENT) return "latent_attention needs a latent store";
  if (!a.heads || !a.rank) return fmt::format("{} heads of rank {}", a.heads, a.rank);
  const int64_t row = int64_t(a.rank) + a.rope_dim;
  if (store.cols_k != row)
    return fmt::format("a rank of {} and {} rotary columns over a store of {}", a.rank, a.rope_dim, store.cols_k);
  if (s.in[0]->cols != a.heads * row)
    return fmt::format("q has {} columns, expected {} heads of {}", s.in[0]->cols, a.heads, row);
  s.out = {like(*s.in[0], int64_t(a.heads) * a.rank)};
  return need_f32(s);
}

std::string infer_short_conv(Signature& s) {
  const auto& a = attr_of<tenon_short_conv_attr>(s);
  const Store& store = *s.store[0];
  if (store.kind != TENON_STORE_CONV) return "short_conv needs a conv store";
  if (a.taps < 2 || s.weight[0]->cols != a.taps || s.weight[0]->rows != s.in[0]->cols)
    return fmt::format("weight {} is [{}, {}], expected [{}, {}]", s.weight[0]->name, s.weight[0]->rows,
                       s.weight[0]->cols, s.in[0]->cols, a.taps);
  if (store.cols_k != s.in[0]->cols || store.cols_v != int64_t(a.taps) - 1) return "channels and taps do not fit the store";
  s.out = {like(*s.in[0], s.in[0]->cols)};
  return need_f32(s);
}

std::string infer_gated_delta_rule(Signature& s) {
  const auto& a = attr_of<tenon_gated_delta_rule_attr>(s);
  const Store& store = *s.store[0];
  if (store.kind != TENON_STORE_RECURRENT) return "gated_delta_rule needs a recurrent store";
  if (!a.key_heads || !a.value_heads || a.value_heads % a.key_heads)
    return fmt::format("{} value heads over {} key heads", a.value_heads, a.key_heads);
  const int64_t k = int64_t(a.key_heads) * a.key_dim, v = int64_t(a.value_heads) * a.value_dim, n = a.value_heads;
  const int64_t expected[] = {k, k, v, n, n};
  for (int i = 0; i < 5; ++i)
    if (s.in[size_t(i)]->cols != expected[i])
      return fmt::format("input {} has {} columns, expected {}", i, s.in[size_t(i)]->cols, expected[i]);
  for (const Weight* w : s.weight)
    if (w->rows * w->cols != n) return fmt::format("weight {} has {} entries, expected {}", w->name, w->rows * w->cols, n);
  if (store.heads != a.value_heads || store.cols_k != n * a.key_dim || store.cols_v != a.value_dim ||
      store.tape_cols != k + v + 2 * n)
    return "heads and widths do not fit the store";
  s.out = {like(*s.in[0], v)};
  return need_f32(s);
}

std::string infer_route(Signature& s) {
  const auto& a = attr_of<tenon_route_attr>(s);
  const int64_t n = s.in[0]->cols;
  if (!a.top_k || int64_t(a.top_k) > n) return fmt::format("{} of {} experts are to be chosen", a.top_k, n);
  if (a.gating > 1) return fmt::format("gating {}", a.gating);
  for (const Weight* w : s.weight)
    if (w->rows * w->cols != n) return fmt::format("weight {} has {} entries, expected {}", w->name, w->rows * w->cols, n);
  s.out = {like(*s.in[0], a.top_k), like(*s.in[0], a.top_k)};
  s.out[0].encoding = TENON_ENC_I32;
  return need_f32(s);
}

std::string infer_expert_ffn(Signature& s) {
  const auto& a = attr_of<tenon_expert_ffn_attr>(s);
  const Weight &gate = *s.weight[0], &up = *s.weight[1], &down = *s.weight[2];
  if (s.in[0]->encoding != TENON_ENC_F32 || s.in[1]->encoding != TENON_ENC_I32 || s.in[2]->encoding != TENON_ENC_F32)
    return "takes f32 rows, ids and f32 weights";
  if (s.in[1]->domain != s.in[0]->domain || s.in[2]->domain != s.in[0]->domain) return "inputs stand for different rows";
  if (!a.top_k || s.in[1]->cols != a.top_k || s.in[2]->cols != a.top_k)
    return fmt::format("{} ids and {} weights a row, expected {}", s.in[1]->cols, s.in[2]->cols, a.top_k);
  if (a.combine > 1) return fmt::format("combine {}", a.combine);
  for (const Weight* w : s.weight)
    if (!w->n_expert || w->n_expert != gate.n_expert)
      return fmt::format("weight {} is of {} experts, {} of {}", w->name, w->n_expert, gate.name, gate.n_expert);
  for (const Weight* w : {&gate, &up})
    if (w->cols != s.in[0]->cols || w->rows != down.cols)
      return fmt::format("weight {} is [{}, {}], expected [{}, {}]", w->name, w->rows, w->cols, down.cols, s.in[0]->cols);
  s.out = {like(*s.in[0], a.combine ? down.rows * a.top_k : down.rows)};
  return "";
}

std::string infer_fold_slots(Signature& s) {
  if (s.in[0]->domain != s.in[1]->domain) return "inputs stand for different rows";
  if (s.in[0]->cols % s.in[1]->cols)
    return fmt::format("{} columns are no multiple of the {} slots", s.in[0]->cols, s.in[1]->cols);
  s.out = {like(*s.in[0], s.in[0]->cols / s.in[1]->cols)};
  return need_f32(s);
}

std::string infer_select_rows(Signature& s) {
  s.out = {like(*s.in[0], s.in[0]->cols)};
  s.out[0].domain = TENON_DOMAIN_OUTPUT_ROWS;
  return need_f32(s);
}

constexpr uint32_t kAll = ~0u;

// clang-format off
constexpr OpInfo kOps[] = {
    //                                          attribute bytes                       in     weights stores
    {TENON_OP_EMBED, "embed", sizeof(tenon_embed_attr), 1, 2, 1, 1, 0, infer_embed, 0, true},
    {TENON_OP_ENCODE, "encode", sizeof(tenon_encode_attr), 1, 1, 0, 0, 0, infer_encode, 0, true},
    {TENON_OP_NORM, "norm", sizeof(tenon_norm_attr), 1, 1, 0, 1, 0, infer_norm, kAll, true},
    {TENON_OP_LINEAR, "linear", sizeof(tenon_linear_attr), 1, 1, 1, 4, 0, infer_linear, 0, true},
    {TENON_OP_GLU, "glu", sizeof(tenon_glu_attr), 2, 2, 0, 0, 0, infer_pair, kAll, true},
    {TENON_OP_GATE, "gate", sizeof(tenon_gate_attr), 2, 2, 0, 0, 0, infer_gate, kAll, true},
    {TENON_OP_ADD, "add", 0, 1, 2, 0, 1, 0, infer_add, kAll, true},
    {TENON_OP_MUL, "mul", 0, 1, 2, 0, 1, 0, infer_mul, kAll, true},
    {TENON_OP_SCALE, "scale", sizeof(tenon_scale_attr), 1, 1, 0, 0, 0, infer_same, kAll, true},
    {TENON_OP_SOFTCAP, "softcap", sizeof(tenon_scale_attr), 1, 1, 0, 0, 0, infer_same, kAll, true},
    {TENON_OP_CONCAT, "concat", 0, 2, 2, 0, 0, 0, infer_concat, 0, true},
    {TENON_OP_ROPE, "rope", sizeof(tenon_rope_attr), 1, 1, 1, 2, 0, infer_rope, kAll, true},
    {TENON_OP_KV_WRITE, "kv_write", sizeof(tenon_kv_write_attr), 1, 2, 0, 0, 1, infer_kv_write, kAll, true},
    {TENON_OP_ATTENTION, "attention", sizeof(tenon_attention_attr), 1, 1, 0, 0, 1, infer_attention, kAll, true},
    {TENON_OP_LATENT_ATTENTION, "latent_attention", sizeof(tenon_latent_attention_attr), 1, 1, 0, 0, 1, infer_latent_attention, kAll, true},
    {TENON_OP_SHORT_CONV, "short_conv", sizeof(tenon_short_conv_attr), 1, 1, 1, 1, 1, infer_short_conv, kAll, false},
    {TENON_OP_GATED_DELTA_RULE, "gated_delta_rule", sizeof(tenon_gated_delta_rule_attr), 5, 5, 2, 2, 1,
     infer_gated_delta_rule, 0b11100, false},
    {TENON_OP_ROUTE, "route", sizeof(tenon_route_attr), 1, 1, 0, 2, 0, infer_route, 0, true},
    {TENON_OP_EXPERT_FFN, "expert_ffn", sizeof(tenon_expert_ffn_attr), 3, 3, 3, 3, 0, infer_expert_ffn, 0, true},
    {TENON_OP_FOLD_SLOTS, "fold_slots", 0, 2, 2, 0, 0, 0, infer_fold_slots, 0, true},
    {TENON_OP_SELECT_ROWS, "select_rows", 0, 1, 1, 0, 0, 0, infer_select_rows, kAll, false},
};
// clang-format on

}  // namespace

const OpInfo* op_info(uint32_t op) {
  for (const OpInfo& info : kOps)
    if (info.op == op) return &info;
  return nullptr;
}

const OpInfo* op_info(std::string_view name) {
  for (const OpInfo& info : kOps)
    if (info.name == name) return &info;
  return nullptr;
}

std::string_view op_name(uint32_t op) {
  if (const OpInfo* info = op_info(op)) return info->name;
  constexpr std::array<std::pair<uint32_t, std::string_view>, 8> kOthers = {{
      {TENON_OP_ALL_REDUCE, "all_reduce"},
      {TENON_OP_ALL_GATHER, "all_gather"},
      {TENON_OP_ALL_TO_ALL, "all_to_all"},
      {TENON_OP_SEND, "send"},
      {TENON_OP_RECV, "recv"},
      {TENON_OP_COMPOSITE, "composite"},
      {TENON_OP_LOGITS_TAIL, "logits_tail"},
      {TENON_OP_SAMPLE, "sample"},
  }};
  for (const auto& [id, name] : kOthers)
    if (id == op) return name;
  return "unknown op";
}

}  // namespace tenon::graph
