// step35.hpp: Step 3.5 and 3.7 text decoders. Local and global attention with their own head counts and a gate a head,
// experts beside a shared one behind dense first layers, limits of the activation in the last layers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>
#include <vector>

namespace tenon::step35 {

struct LayerParams {
  bool sliding = false, has_experts = false;
  int64_t heads = 0, kv_heads = 0;
  float expert_limit = 0, dense_limit = 0;  // of routed experts; of the shared expert or the dense part. 0 = none
};

struct Params {
  std::string id;
  int64_t width = 0, vocab = 0, context = 0, ffn_width = 0, window = 0, head_dim = 0;
  int64_t n_draft = 0;  // prediction blocks behind the trunk
  float eps = 0;
  std::vector<LayerParams> layers;  // of the trunk
  sdk::Rope local_rope, global_rope;
  sdk::MixtureOfExperts experts;
};

// All throw sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);
std::vector<LayerParams> read_layers(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks);
[[noreturn]] void refuse(tenon_status status, const std::string& key, const std::string& expected,
                         const std::string& found);

class Step35 : public sdk::Architecture {
 public:
  Step35(const sdk::Metadata& meta, const std::string& id);
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 private:
  int64_t n_layers() const { return static_cast<int64_t>(p_.layers.size()); }
  sdk::AttentionOptions attention_options(const LayerParams&) const;
  sdk::FeedForward feed_forward(const LayerParams&) const;
  sdk::MixtureOfExperts experts(const LayerParams&) const;
  sdk::Value attention(const sdk::Block&, sdk::Value u, const LayerParams&) const;
  Params p_;
  bool holds_drafts_ = false;  // a split export may announce draft blocks and leave them to another file
};

}  // namespace tenon::step35
