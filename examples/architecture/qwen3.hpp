// qwen3.hpp: dense Qwen3 text decoders. Pre-norm, q/k norm for each head, rotation of the whole head, SwiGLU.
#pragma once

#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>

namespace example {

namespace sdk = tenon::sdk;

struct Params {
  int64_t n_layers = 0, width = 0, inner = 0, vocab = 0, context = 0;
  float eps = 0;
  sdk::AttentionOptions attention;
  sdk::Rope rope;
};

// Throws sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);

class Qwen3 : public sdk::Architecture {
 public:
  Qwen3(const sdk::Metadata& meta, const std::string& id) : p_(read_params(meta, id)) {}
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  void build(const sdk::Graph&, std::string_view entry) const override;

 private:
  sdk::FeedForward feed_forward() const { return {.width = p_.width, .inner = p_.inner}; }
  Params p_;
};

}  // namespace example
