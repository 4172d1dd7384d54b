// llama.hpp: dense pre-norm decoders with SwiGLU: Llama and Mistral, Qwen2 (biases of q, k, v), Qwen3 (q/k norm).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>

namespace tenon::llama {

struct Params {
  std::string id;
  int64_t n_layers = 0, width = 0, ffn_width = 0, vocab = 0, context = 0;
  float eps = 0;
  sdk::AttentionOptions attention;
  sdk::Rope rope;
  std::string rope_scaling;  // "none", "linear", "yarn", "llama3"
  float rope_factor = 1;     // of linear scaling
  bool query_key_norm = false;
  sdk::Bias bias = sdk::Bias::kNone;
};

// Both throw sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);
void read_rope(const sdk::Keys& key, Params& p);

class Llama : public sdk::Architecture {
 public:
  Llama(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {}
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 private:
  sdk::GroupedAttention attention() const;
  sdk::FeedForward feed_forward() const { return {.width = p_.width, .inner = p_.ffn_width}; }
  Params p_;
};

}  // namespace tenon::llama
