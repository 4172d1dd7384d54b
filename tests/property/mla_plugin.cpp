// An architecture of the tests' own: decoders with multi-head latent attention, in the form that a file asks for. "naive"
// makes keys and values of every head and attends to them as any model does; "absorbed" is the SDK's layer. Weights and
// maths are the same, so the forms must agree to rounding.
#include <cmath>
#include <string>
#include <tenon/sdk/architecture.hpp>
#include <tenon/sdk/plugin.hpp>

namespace {

using namespace tenon;

class Mla final : public sdk::Architecture {
 public:
  Mla(const sdk::Metadata& meta, const std::string& id) {
    const sdk::Keys key = meta.keys(id);
    n_layers_ = key.integer(sdk::kLayers, "block_count");
    vocab_ = key.integer(sdk::kAnyCount, "vocab_size");
    is_absorbed_ = key.value_or<std::string>("absorbed", "form") == "absorbed";
    o_.width = key.integer(sdk::kAnyCount, "embedding_length");
    o_.latent.heads = key.integer(sdk::kAnyCount, "attention.head_count");
    o_.latent.rank = key.integer(sdk::kAnyCount, "attention.kv_lora_rank");
    o_.latent.rope_dim = key.integer(sdk::kAnyCount, "rope.dimension_count");
    o_.nope_dim = key.integer(sdk::kAnyCount, "attention.key_length") - o_.latent.rope_dim;
    o_.value_dim = key.integer(sdk::kAnyCount, "attention.value_length");
    o_.query_rank = key.integer({0, 1 << 20}, "attention.q_lora_rank");
    o_.latent.scale = key.positive_or(1.0f / std::sqrt(float(o_.query_dim())), "attention.scale");
    rope_ = {.name = "rope",
             .inv_freq = sdk::inverse_frequencies(10000.0f, o_.latent.rope_dim),
             .base = 10000.0f,
             .head_dim = o_.latent.rope_dim,
             .n_rot = o_.latent.rope_dim};
    o_.rope = &rope_;
    has_stacks_ = meta.tensor("blk.0.attn_k_b.weight").has_value();
  }

  sdk::Limits limits() const override {
    return {.n_layers = n_layers_, .width = o_.width, .vocab = vocab_, .context = 4096};
  }

  void declare(sdk::Weights& w) const override {
    w.vocab("token_embd.weight", {vocab_, o_.width});
    sdk::declare_head(w, vocab_, o_.width);
    for (int64_t i = 0; i < n_layers_; ++i) {
      const sdk::WeightScope b = w.block(i);
      b.norm("attn_norm.weight", o_.width);
      sdk::declare_latent_attention(b, o_);
      if (!is_absorbed_) b.column("attn_kv_b.weight", {o_.latent.heads * (o_.nope_dim + o_.value_dim), o_.latent.rank});
      b.norm("ffn_norm.weight", o_.width);
      sdk::declare_feed_forward(b, feed_forward());
    }
  }

  bool names(sdk::NameRules& r) const override {
    if (r.scheme() != "gguf") return false;
    // Files of the tests keep the two projections of the compressed row apart.
    r.join_rows("blk.{i}.attn_kv_a_mqa.weight", {"blk.{i}.attn_kv_a.weight", "blk.{i}.attn_k_pe.weight"});
    if (has_stacks_) {
      sdk::latent_names(r, o_, "blk.{i}.attn_k_b.weight", "blk.{i}.attn_v_b.weight");
    } else {
      sdk::latent_names(r, o_, "blk.{i}.attn_kv_b.weight");
    }
    return true;
  }

  void build(const sdk::Graph& g, std::string_view) const override {
    sdk::Value x = g.embed("token_embd.weight");
    for (int64_t i = 0; i < n_layers_; ++i) {
      const sdk::Block b = g.layer(i, x);
      const sdk::Value u = b.rms_norm(x, "attn_norm.weight", o_.eps);
      x = b.add(x, is_absorbed_ ? sdk::latent_attention(b, u, o_) : naive(b, u));
      x = b.add(x, sdk::feed_forward(b, b.rms_norm(x, "ffn_norm.weight", o_.eps), feed_forward()));
    }
    sdk::finish(g, x, n_layers_, o_.eps);
  }

 private:
  sdk::FeedForward feed_forward() const { return {.width = o_.width, .inner = 2 * o_.width}; }

  // Every head's key is [its own part ; the rotated part that all share], its value its own.
  sdk::Value naive(const sdk::Block& b, sdk::Value u) const {
    const int64_t heads = o_.latent.heads, rank = o_.latent.rank, rope_dim = o_.latent.rope_dim, nope = o_.nope_dim;
    const int64_t step = nope + o_.value_dim;
    const sdk::AttentionOptions a = {.heads = heads,
                                     .kv_heads = heads,
                                     .head_dim = o_.query_dim(),
                                     .head_dim_v = o_.value_dim,
                                     .scale = o_.latent.scale};
    const sdk::Store store = b.paged_store(a);
    const auto [q, kv] = sdk::latent_projections(b, u, o_);
    const sdk::Value full = b.linear(b.rms_norm(b.columns(kv, 0, rank), "attn_kv_a_norm.weight", o_.eps), "attn_kv_b.weight");
    const sdk::Value shared = b.rope(b.columns(kv, rank, rope_dim), rope_);
    const sdk::Value rotated = b.rope(b.strided(q, nope, rope_dim, heads, o_.query_dim()), rope_);
    std::vector<sdk::Value> keys, queries;
    for (int64_t h = 0; h < heads; ++h) {
      keys.push_back(b.columns(full, h * step, nope)), keys.push_back(shared);
      queries.push_back(b.columns(q, h * o_.query_dim(), nope));
      queries.push_back(b.columns(rotated, h * rope_dim, rope_dim));
    }
    b.kv_write(store, b.concat(keys), b.strided(full, nope, o_.value_dim, heads, step), a);
    return b.linear(b.attention(store, b.concat(queries), a), "attn_output.weight");
  }

  sdk::LatentAttention o_;
  sdk::Rope rope_;
  int64_t n_layers_ = 0, vocab_ = 0;
  bool is_absorbed_ = false, has_stacks_ = false;
};

}  // namespace

TENON_PLUGIN("mla", "0.1.0") { sdk::register_architecture<Mla>(registrar, {{"mla"}}); }
