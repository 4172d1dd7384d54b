// layers.hpp: layers that many architectures share. Each has a declare_… for its weights and a function that adds its
// nodes; both read the same options, so they cannot disagree. Weights have their GGUF names under the block's prefix.
#pragma once

#include <cmath>
#include <tenon/sdk/graph.hpp>

namespace tenon::sdk {

// --- Attention with K/V heads shared by groups of query heads --------------------------------------------------------

// Biases behind the projections.
enum class Bias {
  kNone,
  kWhereFound,     // of q, k, v and the output, each where the file has it
  kQueryKeyValue,  // of q, k and v; the file must have them
};

struct GroupedAttention {
  AttentionOptions attention;
  int64_t width = 0;            // of the residual stream
  const Rope* rope = nullptr;   // null = none
  bool query_key_norm = false;  // RMS over each head, before the rotation
  bool output_gate = false;     // attn_q has, head after head, the query's rows and then the rows of a sigmoid gate
  float eps = 1e-6f;
  Bias bias = Bias::kNone;
};

inline void declare_attention(const WeightScope& b, const GroupedAttention& o) {
  const int64_t heads = o.attention.heads, kv_heads = o.attention.kv_heads, head_dim = o.attention.head_dim;
  const int64_t value_dim = o.attention.head_dim_v ? o.attention.head_dim_v : head_dim;
  auto& q = b.column("attn_q.weight", {heads * head_dim * (o.output_gate ? 2 : 1), o.width}).heads(heads);
  if (o.output_gate) q.note("query and gate fused");
  b.column("attn_k.weight", {kv_heads * head_dim, o.width}).heads(kv_heads).repeat_if_short();
  b.column("attn_v.weight", {kv_heads * value_dim, o.width}).heads(kv_heads).repeat_if_short();
  b.row("attn_output.weight", {o.width, heads * value_dim}).heads(heads);
  if (o.query_key_norm) {
    b.norm("attn_q_norm.weight", head_dim);
    b.norm("attn_k_norm.weight", head_dim);
  }
  if (o.bias == Bias::kNone) return;
  WeightDecl* const biases[] = {&b.row("attn_q.bias", {1, heads * head_dim}).heads(heads),
                                &b.row("attn_k.bias", {1, kv_heads * head_dim}).heads(kv_heads).repeat_if_short(),
                                &b.row("attn_v.bias", {1, kv_heads * value_dim}).heads(kv_heads).repeat_if_short()};
  for (WeightDecl* bias : biases)
    if (bias->keep_float(); o.bias == Bias::kWhereFound) bias->optional();
  if (o.bias == Bias::kWhereFound) b.replicated("attn_output.bias", {1, o.width}).keep_float().optional();
}

// x, or x + bias where the model has one.
inline Value with_bias(const Block& b, Value x, std::string_view name, Bias bias) {
  return bias != Bias::kNone && b.has(name) ? b.add_weight(x, name) : x;
}

// u: the normed input of the layer. Answers what is added to the residual stream.
inline Value attention(const Block& b, Value u, const GroupedAttention& o) {
  const AttentionOptions& a = o.attention;
  const Store store = b.paged_store(a);
  auto [q, k, v] = b.linear(u, "attn_q.weight", "attn_k.weight", "attn_v.weight");
  q = with_bias(b, q, "attn_q.bias", o.bias);
  k = with_bias(b, k, "attn_k.bias", o.bias);
  v = with_bias(b, v, "attn_v.bias", o.bias);
  Value gate;
  if (o.output_gate) {
    gate = b.strided(q, a.head_dim, a.head_dim, a.heads, 2 * a.head_dim);
    q = b.strided(q, 0, a.head_dim, a.heads, 2 * a.head_dim);
  }
  if (o.query_key_norm) {
    q = b.rms_norm(q, "attn_q_norm.weight", o.eps, a.head_dim);
    k = b.rms_norm(k, "attn_k_norm.weight", o.eps, a.head_dim);
  }
  if (o.rope) {
    q = b.rope(q, *o.rope);
    k = b.rope(k, *o.rope);
  }
  b.kv_write(store, k, v, a);
  Value out = b.attention(store, q, a);
  if (o.output_gate) out = b.gate(out, gate, TENON_ACT_SIGMOID);
  out = b.linear(out, "attn_output.weight");
  return o.bias == Bias::kWhereFound ? with_bias(b, out, "attn_output.bias", o.bias) : out;
}

// --- Gated DeltaNet (arXiv 2412.06464)
// ---------------------------------------------------------------------------------

struct GatedDeltaNet {
  DeltaRuleOptions rule;
  int64_t width = 0, taps = 4;
  float eps = 1e-6f;  // of the output norm
  // One weight for beta and alpha: for each key head the rows of its value heads' betas, then of their alphas.
  bool joint_beta_alpha = false;
  int64_t key_cols() const { return rule.key_heads * rule.key_dim; }
  int64_t value_cols() const { return rule.value_heads * rule.value_dim; }
  int64_t channels() const { return 2 * key_cols() + value_cols(); }
};

inline void declare_gated_delta_net(const WeightScope& b, const GatedDeltaNet& o) {
  const DeltaRuleOptions& r = o.rule;
  // Value heads go where their key head goes: with the mod map, heads h, h + nk, … together.
  const auto period = static_cast<uint32_t>(r.head_map == TENON_HEAD_MAP_MOD ? r.key_heads : 0);
  const tenon_segment key{o.key_cols(), static_cast<uint32_t>(r.key_dim), 0};
  const tenon_segment value{o.value_cols(), static_cast<uint32_t>(r.value_dim), period};
  const tenon_segment scalar{r.value_heads, 1, period};
  b.column("attn_qkv.weight", {o.channels(), o.width}).segments({key, key, value}).note("q, k and v of the delta net");
  b.column("attn_gate.weight", {o.value_cols(), o.width}).segments({value});
  if (o.joint_beta_alpha) {
    b.column("ssm_ba.weight", {2 * r.value_heads, o.width}).heads(r.key_heads);
  } else {
    b.column("ssm_beta.weight", {r.value_heads, o.width}).segments({scalar});
    b.column("ssm_alpha.weight", {r.value_heads, o.width}).segments({scalar});
  }
  b.column("ssm_conv1d.weight", {o.channels(), o.taps}).segments({key, key, value}).keep_float();
  b.row("ssm_a", {1, r.value_heads}).segments({scalar}).keep_float();
  b.row("ssm_dt.bias", {1, r.value_heads}).segments({scalar}).keep_float();
  b.norm("ssm_norm.weight", r.value_dim);
  b.row("ssm_out.weight", {o.width, o.value_cols()}).segments({value});
}

// u: the normed input of the layer. Answers what is added to the residual stream.
inline Value gated_delta_net(const Block& b, Value u, const GatedDeltaNet& o) {
  constexpr float kL2Eps = 1e-6f;  // inside the root; a constant of the method, not the model's eps
  const DeltaRuleOptions& r = o.rule;
  const Store conv = b.conv_store(o.channels(), o.taps);
  const Store state = b.recurrent_store(r);
  Value qkv, z, beta, alpha;
  if (o.joint_beta_alpha) {
    const int64_t share = r.value_heads / r.key_heads;
    const auto joint = b.linear(u, "attn_qkv.weight", "attn_gate.weight", "ssm_ba.weight");
    qkv = joint[0], z = joint[1];
    beta = b.strided(joint[2], 0, share, r.key_heads, 2 * share);
    alpha = b.strided(joint[2], share, share, r.key_heads, 2 * share);
  } else {
    const auto apart = b.linear(u, "attn_qkv.weight", "attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight");
    qkv = apart[0], z = apart[1], beta = apart[2], alpha = apart[3];
  }
  const Value mixed = b.short_conv(conv, qkv, "ssm_conv1d.weight", o.taps, TENON_ACT_SILU);
  const Value q = b.l2_norm(b.columns(mixed, 0, o.key_cols()), kL2Eps, r.key_dim);
  const Value k = b.l2_norm(b.columns(mixed, o.key_cols(), o.key_cols()), kL2Eps, r.key_dim);
  const Value v = b.columns(mixed, 2 * o.key_cols(), o.value_cols());
  Value out = b.gated_delta_rule(state, q, k, v, beta, alpha, "ssm_a", "ssm_dt.bias", r);
  out = b.rms_norm(out, "ssm_norm.weight", o.eps, r.value_dim);
  out = b.gate(out, z, TENON_ACT_SILU);
  return b.linear(out, "ssm_out.weight");
}

// --- Gated feed-forward: SwiGLU, GeGLU
// ---------------------------------------------------------------------------------

struct FeedForward {
  int64_t width = 0, inner = 0;
  uint32_t activation = TENON_ACT_SILU;
  float limit = 0.0f;  // as of glu
};

inline void declare_feed_forward(const WeightScope& b, const FeedForward& o) {
  b.column("ffn_gate.weight", {o.inner, o.width});
  b.column("ffn_up.weight", {o.inner, o.width});
  b.row("ffn_down.weight", {o.width, o.inner});
}

inline Value feed_forward(const Block& b, Value u, const FeedForward& o) {
  const auto [gate, up] = b.linear(u, "ffn_gate.weight", "ffn_up.weight");
  return b.linear(b.glu(gate, up, o.activation, o.limit), "ffn_down.weight");
}

// --- Mixture of experts, with a shared expert beside them
// ---------------------------------------------------------------------------------

struct MixtureOfExperts {
  int64_t width = 0, inner = 0;
  RouteOptions route;
  ExpertOptions expert;
  int64_t shared_inner = 0;   // 0 = no shared expert
  float shared_limit = 0.0f;  // of its activation, as of glu
  bool shared_gate = false;   // one number a row, sigmoid, times the shared expert
  bool choice_bias = false;   // shifts which experts are chosen
};

inline void declare_mixture_of_experts(const WeightScope& b, const MixtureOfExperts& o) {
  const int64_t n = o.route.n_expert;
  b.router("ffn_gate_inp.weight", {n, o.width});
  if (o.choice_bias) b.replicated("exp_probs_b.bias", {1, n}).keep_float();
  b.expert("ffn_gate_exps.weight", {o.inner, o.width}, n);
  b.expert("ffn_up_exps.weight", {o.inner, o.width}, n);
  b.expert("ffn_down_exps.weight", {o.width, o.inner}, n);
  if (!o.shared_inner) return;
  b.column("ffn_gate_shexp.weight", {o.shared_inner, o.width});
  b.column("ffn_up_shexp.weight", {o.shared_inner, o.width});
  b.row("ffn_down_shexp.weight", {o.width, o.shared_inner});
  if (o.shared_gate) b.replicated("ffn_gate_inp_shexp.weight", {1, o.width}).keep_float();
}

inline Value mixture_of_experts(const Block& b, Value u, const MixtureOfExperts& o) {
  const auto routed =
      b.route(b.router(u, "ffn_gate_inp.weight"), o.route, o.choice_bias ? "exp_probs_b.bias" : std::string_view());
  b.tap(routed.ids, "route." + std::to_string(b.index()));
  const Value chosen = b.expert_ffn(u, routed, "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
                                    o.route.top_k, o.expert);
  if (!o.shared_inner) return chosen;
  const auto [gate, up] = b.linear(u, "ffn_gate_shexp.weight", "ffn_up_shexp.weight");
  Value shared = b.linear(b.glu(gate, up, o.expert.activation, o.shared_limit), "ffn_down_shexp.weight");
  if (o.shared_gate) {
    // Row-exact like the router: it multiplies a whole row.
    const Value share = b.router(u, "ffn_gate_inp_shexp.weight");
    shared = b.gate(shared, share, TENON_ACT_SIGMOID, o.width);
  }
  return b.add(chosen, shared);
}

// --- The end of a decoder
// ----------------------------------------------------------------------------------------------

inline void declare_head(const WeightScope& w, int64_t vocab, int64_t width) {
  w.norm("output_norm.weight", width);
  w.vocab("output.weight", {vocab, width}).tied_to("token_embd.weight");
}

// The rows are picked before the norm, so that a prompt pays the head only for the rows that are asked for. Answers the
// normed rows.
inline Value finish(const Graph& g, Value x, int64_t n_layers, float eps, float softcap = 0.0f,
                    std::span<const int32_t> never = {}) {
  x = g.rms_norm(g.select_output_rows(x), "output_norm.weight", eps);
  g.tap(x, "hidden." + std::to_string(n_layers));
  g.logits(g.linear(x, "output.weight"), softcap, never);
  return x;
}

// --- A draft: one more block behind the model, which predicts a token further (DeepSeek-V3, arXiv 2412.19437, 2.2)
// ----
//
// Its row joins the embedding of a token and the hidden row of the position before, each under a norm of its own. Norm
// and head of its output are its own, or its file's, or the model's.

struct NextN {
  int64_t block = 0;  // that the weights are of
  int64_t width = 0, vocab = 0;
  int64_t head_rows = 0;  // fewer than vocab: the file lists the tokens that they are of
  float eps = 1e-6f;
  bool passes_normed = true;  // the next draft's hidden row is the normed output, or else the one before the norm
};

// Tensors that list the tokens of a head with fewer rows than the vocabulary; a file has at most one.
inline constexpr const char* kIdMaps[] = {"d2t", "d2t.weight"};

// Beside the weights of the block, which the architecture declares.
inline void declare_next_n(Weights& w, const NextN& o) {
  const WeightScope b = w.block(o.block).optional();
  for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight"})
    b.norm(name, o.width);
  b.column("nextn.eh_proj.weight", {o.width, 2 * o.width}).note("embedding and hidden row joined");
  if (o.vocab) b.vocab("nextn.embed_tokens.weight", {o.vocab, o.width});
  b.vocab("nextn.shared_head_head.weight", {o.head_rows, o.width});
}

// Rows of the head that a file has for all its drafts; `vocab` where it has none.
inline int64_t head_rows(const Metadata& meta, int64_t vocab) {
  const auto head = meta.tensor("output.weight");
  return head ? head->rows() : vocab;
}
// Rows of a draft's head, which is its own or its file's.
inline int64_t head_rows(const Metadata& meta, int64_t vocab, int64_t block) {
  const auto head = meta.tensor(Weights::block_prefix(block) + "nextn.shared_head_head.weight");
  return head ? head->rows() : head_rows(meta, vocab);
}

// Norm and head of a file that has draft blocks alone; each draft takes them where it has none of its own.
inline void declare_draft_head(const WeightScope& w, int64_t rows, int64_t width) {
  w.optional().norm("output_norm.weight", width);
  w.optional().vocab("output.weight", {rows, width});
}

// The block, which the answered value enters.
inline std::pair<Block, Value> begin_next_n(const Graph& g, const NextN& o) {
  const Nodes b = g.block(o.block);
  const bool own = o.vocab && b.has("nextn.embed_tokens.weight");
  const Value token =
      g.embed(own ? Weights::block_prefix(o.block) + "nextn.embed_tokens.weight" : "target:token_embd.weight");
  const Value x = b.linear(
      b.concat(b.rms_norm(token, "nextn.enorm.weight", o.eps), b.rms_norm(g.hidden(), "nextn.hnorm.weight", o.eps)),
      "nextn.eh_proj.weight");
  return {g.layer(0, x, o.block), x};
}

inline void finish_next_n(const Graph& g, const NextN& o, Value x) {
  // The first that is there: the block's, the file's; else the model's.
  const auto name = [&](const std::string& own, const std::string& shared) {
    const std::string full = Weights::block_prefix(o.block) + own;
    return g.has(full) ? full : g.has(shared) ? shared : "target:" + shared;
  };
  if (!o.passes_normed) g.tap(x, kDraftHidden);
  x = g.rms_norm(g.select_output_rows(x), name("nextn.shared_head_norm.weight", "output_norm.weight"), o.eps);
  g.tap(x, "hidden.1");
  if (o.passes_normed) g.tap(x, kDraftHidden);
  g.logits(g.linear(x, name("nextn.shared_head_head.weight", "output.weight")));
  for (const char* map : kIdMaps)
    if (g.has(map)) g.id_map(map);
}

}  // namespace tenon::sdk
