// qwen35.hpp: Qwen 3.5 / 3.6 / 3.8 text decoders, dense and with experts. Three Gated DeltaNet layers, then one with
// gated attention. Qwen3-Next is their elder: it differs in the order of heads and in one weight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tenon/sdk/architecture.hpp>
#include <vector>

namespace tenon::qwen35 {

struct Params {
  std::string id;
  int64_t width = 0, vocab = 0, context = 0, ffn_width = 0;
  int64_t n_draft = 0;                        // prediction blocks behind the trunk, in this file or another
  int64_t head_rows = 0, file_head_rows = 0;  // of the draft's head; of the file's own
  bool has_trunk = true;                      // a split export has the trunk and its drafts in two files
  bool has_draft = false;
  float eps = 0;
  std::vector<bool> recurrent;  // one a trunk layer: true = Gated DeltaNet
  sdk::AttentionOptions attention;
  sdk::Rope rope;
  sdk::DeltaRuleOptions delta;
  int64_t conv_taps = 0;
  bool joint_beta_alpha = false;
  std::optional<sdk::MixtureOfExperts> experts;  // none: dense
  std::vector<int32_t> never;                    // rows of the head that stand for no text
};

// Throws sdk::Error (CORRUPT, UNSUPPORTED) naming the key.
Params read_params(const sdk::Metadata& meta, const std::string& id);

class Qwen35 : public sdk::Architecture {
 public:
  Qwen35(const sdk::Metadata& meta, const std::string& id);
  sdk::Limits limits() const override;
  void declare(sdk::Weights&) const override;
  bool names(sdk::NameRules&) const override;
  std::vector<std::string> entries() const override;
  void build(const sdk::Graph&, std::string_view entry) const override;
  bool written(std::string_view scheme, sdk::Written&) const override;

 private:
  int64_t n_layers() const { return static_cast<int64_t>(p_.recurrent.size()); }
  sdk::GroupedAttention attention() const;
  sdk::GatedDeltaNet delta_net() const;
  sdk::FeedForward feed_forward() const;
  sdk::NextN next_n() const;
  void declare_layer(const sdk::WeightScope&, bool recurrent) const;
  sdk::Value layer(const sdk::Block&, sdk::Value x, bool recurrent) const;
  void build_draft(const sdk::Graph&) const;
  void layer_names(sdk::NameRules&, const std::string& canonical, const std::string& hf, bool fused) const;
  Params p_;
};

}  // namespace tenon::qwen35
