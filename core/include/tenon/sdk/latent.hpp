// latent.hpp: multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, 2.1), as a shared layer.
//
// Keys and values of all heads are products of one compressed row a token, kv_b × c. Here kv_b is absorbed: its part for
// keys turns the query instead, its part for values the output,
//
//   q_nope · (K c) = (Kᵀ q_nope) · c,    Σ w (V c) = V (Σ w c),
//
// so that the cache holds c and the one rotated key part, and attention reads nothing else. A head's K and V are weights
// of their own; latent_names() cuts them out of what files have.
#pragma once

#include <string>
#include <tenon/sdk/graph.hpp>
#include <vector>

namespace tenon::sdk {

struct LatentAttention {
  LatentOptions latent;       // scale: 1 / √(nope_dim + rope_dim) unless the model says otherwise; never of the rank
  int64_t width = 0;          // of the residual stream
  int64_t nope_dim = 0;       // of a head's query and key without rotation; rope_dim more columns are rotated
  int64_t value_dim = 0;      // of a head
  int64_t query_rank = 0;     // the query is compressed to it; 0 = it is not
  const Rope* rope = nullptr;  // of heads of rope_dim columns
  float eps = 1e-6f;
  int64_t query_dim() const { return nope_dim + latent.rope_dim; }
};

inline std::string latent_key(int64_t head) { return "attn_k_b." + std::to_string(head) + ".weight"; }
inline std::string latent_value(int64_t head) { return "attn_v_b." + std::to_string(head) + ".weight"; }

inline void declare_latent_attention(const WeightScope& b, const LatentAttention& o) {
  const LatentOptions& l = o.latent;
  if (o.query_rank) {
    b.replicated("attn_q_a.weight", {o.query_rank, o.width});
    b.norm("attn_q_a_norm.weight", o.query_rank);
    b.column("attn_q_b.weight", {l.heads * o.query_dim(), o.query_rank}).heads(l.heads);
  } else {
    b.column("attn_q.weight", {l.heads * o.query_dim(), o.width}).heads(l.heads);
  }
  b.replicated("attn_kv_a_mqa.weight", {l.row(), o.width}).note("compressed K/V and the rotated part of the key");
  b.norm("attn_kv_a_norm.weight", l.rank);
  for (int64_t h = 0; h < l.heads; ++h) {
    b.replicated(latent_key(h), {l.rank, o.nope_dim});
    b.replicated(latent_value(h), {o.value_dim, l.rank});
  }
  b.row("attn_output.weight", {o.width, l.heads * o.value_dim}).heads(l.heads);
}

// Each head's matrices, out of one `kv_b` that has head after head nope_dim rows of keys and value_dim rows of values, over
// the rank; it must be of floats.
inline void latent_names(NameRules& r, const LatentAttention& o, const std::string& kv_b) {
  const int64_t step = o.nope_dim + o.value_dim, all = o.latent.heads * step;
  for (int64_t h = 0; h < o.latent.heads; ++h) {
    const int64_t first = h * step;
    r.transpose_rows("blk.{i}." + latent_key(h), kv_b, first, first + o.nope_dim, all);
    r.slice_rows("blk.{i}." + latent_value(h), kv_b, first + o.nope_dim, first + step, all);
  }
}
// The same out of stacks of them, [nope_dim, rank, heads] and [rank, value_dim, heads], of any dtype.
inline void latent_names(NameRules& r, const LatentAttention& o, const std::string& k_b, const std::string& v_b) {
  const int64_t n = o.latent.heads, rank = o.latent.rank, dim = o.value_dim;
  for (int64_t h = 0; h < n; ++h) {
    r.slice_rows("blk.{i}." + latent_key(h), k_b, h * rank, (h + 1) * rank, n * rank);
    r.slice_rows("blk.{i}." + latent_value(h), v_b, h * dim, (h + 1) * dim, n * dim);
  }
}

// The query of every head, [without rotation ; rotated] after one another, the second not rotated yet.
inline std::pair<Value, Value> latent_projections(const Block& b, Value u, const LatentAttention& o) {
  const auto [q, kv] = b.linear(u, o.query_rank ? "attn_q_a.weight" : "attn_q.weight", "attn_kv_a_mqa.weight");
  if (!o.query_rank) return {q, kv};
  return {b.linear(b.rms_norm(q, "attn_q_a_norm.weight", o.eps), "attn_q_b.weight"), kv};
}

// u: the normed input of the layer. Answers what is added to the residual stream.
inline Value latent_attention(const Block& b, Value u, const LatentAttention& o) {
  const LatentOptions& l = o.latent;
  const Store store = b.latent_store(l);
  const auto [q, kv] = latent_projections(b, u, o);
  const Value compressed = b.rms_norm(b.columns(kv, 0, l.rank), "attn_kv_a_norm.weight", o.eps);
  b.latent_write(store, b.concat(compressed, b.rope(b.columns(kv, l.rank, l.rope_dim), *o.rope)), l);
  const Value rotated = b.rope(b.strided(q, o.nope_dim, l.rope_dim, l.heads, o.query_dim()), *o.rope);
  std::vector<Value> parts;
  for (int64_t h = 0; h < l.heads; ++h) {
    parts.push_back(b.linear(b.columns(q, h * o.query_dim(), o.nope_dim), latent_key(h)));
    parts.push_back(b.columns(rotated, h * l.rope_dim, l.rope_dim));
  }
  const Value sums = b.latent_attention(store, b.concat(parts), l);
  parts.clear();
  for (int64_t h = 0; h < l.heads; ++h) parts.push_back(b.linear(b.columns(sums, h * l.rank, l.rank), latent_value(h)));
  return b.linear(b.concat(parts), "attn_output.weight");
}

}  // namespace tenon::sdk
