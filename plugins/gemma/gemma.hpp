// gemma.hpp: Gemma 3 text decoders. Sandwich norms, q/k norms, local and global attention layers, GeGLU, tied head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>
#include <vector>

namespace tenon::gemma {

// What differs from layer to layer.
struct LayerParams {
  bool sliding = false;  // local: sees `window` tokens; else global
  int64_t kv_heads = 0, head_dim = 0, ffn_width = 0;
};

struct Params {
  std::string id;
  int64_t width = 0, heads = 0, vocab = 0, context = 0, window = 0;
  float eps = 0, embedding_scale = 0, attention_scale = 0;
  float final_softcap = 0;  // 0 = none
  std::vector<LayerParams> layers;
  sdk::Rope local_rope, global_rope;
  float global_rope_factor = 1, attention_divisor = 0;  // the latter's root divides queries
  float usual_divisor = 0;                              // what files without the number mean
};

// Throws sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);

class Gemma : public sdk::Architecture {
 public:
  Gemma(const sdk::Metadata& meta, const std::string& id);
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 private:
  sdk::GroupedAttention attention(const LayerParams&) const;
  sdk::FeedForward feed_forward(const LayerParams&) const;
  Params p_;
};

}  // namespace tenon::gemma
