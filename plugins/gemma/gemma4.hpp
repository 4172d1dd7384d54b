// gemma4.hpp: Gemma 4 text decoders: dense, with experts, and E-series. Beside Gemma 3: heads of two widths, global
// layers whose value is the raw key, a scalar a layer, embeddings of each layer, and last layers that read the keys and
// values of earlier ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>
#include <vector>

namespace tenon::gemma {

struct Gemma4Layer {
  bool sliding = false;
  bool key_is_value = false;  // no attn_v: the value is the key before its norm and rotation
  int64_t source = -1;        // layer whose keys and values are read; -1 = its own
  int64_t kv_heads = 0, head_dim = 0, ffn_width = 0;
};

struct Gemma4Params {
  std::string id;
  int64_t width = 0, heads = 0, vocab = 0, context = 0, window = 0;
  int64_t layer_embedding = 0;  // width of each layer's own embedding; 0 = none
  int64_t target_width = 0;     // of an assistant: that of the model drafted for
  float eps = 0, final_softcap = 0;
  std::vector<Gemma4Layer> layers;
  sdk::MixtureOfExperts experts;  // beside the dense part of every layer; no experts = none
  sdk::Rope local_rope, global_rope;
  std::vector<int32_t> never;  // ids that the file suppresses
  bool span_mask = false;      // in local layers an image's rows see each other both ways
};

// An assistant's layers are those of a small Gemma 4 without keys and values.
inline constexpr const char* kAssistant = "gemma4-assistant";

// Throws sdk::Error (CORRUPT, UNSUPPORTED) naming the key or tensor.
Gemma4Params read_gemma4(const sdk::Metadata& meta, const std::string& id);

class Gemma4 : public sdk::Architecture {
 public:
  Gemma4(const sdk::Metadata& meta, const std::string& id) : p_(read_gemma4(meta, id)) {}
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 protected:
  void declare_layer(const sdk::WeightScope& b, const Gemma4Layer& layer) const;
  sdk::Value rotated_query(const sdk::Block&, sdk::Value q, const Gemma4Layer&) const;
  sdk::Value behind_attention(const sdk::Block&, sdk::Value x, sdk::Value h, const Gemma4Layer&) const;
  sdk::AttentionOptions attention_options(const Gemma4Layer&) const;
  int64_t n_layers() const { return static_cast<int64_t>(p_.layers.size()); }
  Gemma4Params p_;

 private:
  void declare_attention(const sdk::WeightScope& b, const Gemma4Layer& layer) const;
  sdk::FeedForward feed_forward(const Gemma4Layer&) const;
  sdk::Value attention(const sdk::Block&, sdk::Value u, const Gemma4Layer&, std::vector<sdk::Store>& stores) const;
  sdk::Value feed_forward_and_experts(const sdk::Block&, sdk::Value x, const Gemma4Layer&) const;
  sdk::Value layer_embeddings(const sdk::Graph&, sdk::Value x) const;
  sdk::Value add_layer_embedding(const sdk::Block&, sdk::Value x, sdk::Value embeddings) const;
  // Layers of the E-series have embeddings of their own, which an image's rows have none of.
  bool takes_overlay() const { return p_.layer_embedding == 0; }
  bool has_experts() const { return p_.experts.route.n_expert > 0; }
};

// A draft in a file of its own, which reads the model's embedding, hidden rows, keys and values.
class Gemma4Assistant : public Gemma4 {
 public:
  using Gemma4::Gemma4;
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  std::vector<std::string> entries() const override { return {"draft.0"}; }
  bool written(std::string_view, sdk::Written&) const override { return false; }
  void build(const sdk::Graph&, std::string_view entry) const override;
};

}  // namespace tenon::gemma
