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
  int64_t n_draft = 0;    // prediction blocks behind the trunk, in this file or another
  bool has_trunk = true;  // a split export has the trunk and its drafts in two files
  bool has_drafts = false;
  float eps = 0;
  std::vector<LayerParams> layers, drafts;  // of the trunk; of the draft blocks that the lists go on for
  std::vector<int64_t> head_rows;           // of the drafts' heads
  int64_t file_head_rows = 0;
  sdk::Rope local_rope, global_rope;
  sdk::MixtureOfExperts experts;
};

// All throw sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);
// Of the trunk, then of the draft blocks for which every list has an entry: none borrows a neighbour's.
std::vector<LayerParams> read_layers(const sdk::Keys& key, int64_t n_trunk, int64_t n_blocks);
[[noreturn]] void refuse(tenon_status status, const std::string& key, const std::string& expected,
                         const std::string& found);

class Step35 : public sdk::Architecture {
 public:
  Step35(const sdk::Metadata& meta, const std::string& id);
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  std::vector<std::string> entries() const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 private:
  int64_t n_layers() const { return static_cast<int64_t>(p_.layers.size()); }
  int64_t n_drafts() const { return p_.has_drafts ? static_cast<int64_t>(p_.drafts.size()) : 0; }
  sdk::NextN next_n(int64_t draft) const;
  void declare_layer(const sdk::WeightScope&, const LayerParams&) const;
  sdk::Value layer(const sdk::Block&, sdk::Value x, const LayerParams&) const;
  sdk::AttentionOptions attention_options(const LayerParams&) const;
  sdk::FeedForward feed_forward(const LayerParams&) const;
  sdk::MixtureOfExperts experts(const LayerParams&) const;
  sdk::Value attention(const sdk::Block&, sdk::Value u, const LayerParams&) const;
  Params p_;
};

}  // namespace tenon::step35
