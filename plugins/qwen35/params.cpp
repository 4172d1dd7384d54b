// params.cpp: what the file says. Key names: GGUF's, then those of the Hugging Face config.
#include <cmath>

#include "qwen35.hpp"

namespace tenon::qwen35 {
namespace {

constexpr sdk::Bounds kHeads{1, 4096};
constexpr sdk::Bounds kHeadDim{2, 1024};

[[noreturn]] void refuse(const std::string& key, const std::string& expected, int64_t found) {
  throw sdk::Error(TENON_CORRUPT, key + ": expected " + expected + ", found " + std::to_string(found));
}

// True = Gated DeltaNet. The list covers the draft blocks as well in GGUF, the trunk alone in a config.
std::vector<bool> recurrent_layers(const sdk::Keys& key, int64_t n_block, int64_t n_trunk) {
  if (const auto found = key.find("attention.recurrent_layers", "layer_types")) {
    std::vector<bool> out;
    if (found->value.type == TENON_VALUE_ARRAY && found->value.element == TENON_VALUE_STRING) {
      for (const std::string& type : found->as<std::vector<std::string>>()) {
        if (type != "linear_attention" && type != "full_attention")
          throw sdk::Error(TENON_CORRUPT,
                           found->key + ": expected linear_attention or full_attention, found \"" + type + "\"");
        out.push_back(type == "linear_attention");
      }
    } else {
      out = found->as<std::vector<bool>>();
    }
    const auto size = static_cast<int64_t>(out.size());
    if (size != n_block && size != n_trunk)
      refuse(found->key, std::to_string(n_block) + " entries (one a block)", size);
    out.resize(static_cast<size_t>(n_trunk));
    return out;
  }
  const int64_t interval = key.integer_or(4, {1, 512}, "full_attention_interval", "full_attention_interval");
  std::vector<bool> out;
  for (int64_t i = 0; i < n_trunk; ++i) out.push_back((i + 1) % interval != 0);
  return out;
}

// K/V heads of the attention layers. An array may hold 0 for the others, but the attention layers must agree.
int64_t attention_heads(const sdk::Keys& key, const std::vector<bool>& recurrent, int64_t n_block, const char* gguf,
                        const char* hf) {
  const auto values = key.per_layer(n_block, {0, kHeads.high}, gguf, hf);
  int64_t heads = 0;
  for (size_t i = 0; i < recurrent.size(); ++i) {
    if (recurrent[i]) continue;
    if (values[i] == 0 || (heads && values[i] != heads))
      refuse(key.name(gguf, hf),
             (heads ? std::to_string(heads) : "1 or more") + " in attention layer " + std::to_string(i), values[i]);
    heads = values[i];
  }
  return heads ? heads : 1;  // a trunk without attention layers has no use for it
}

void read_attention(const sdk::Keys& key, int64_t n_block, Params& p) {
  const int64_t heads = attention_heads(key, p.recurrent, n_block, "attention.head_count", "num_attention_heads");
  const int64_t kv_heads = attention_heads(key, p.recurrent, n_block, "attention.head_count_kv", "num_key_value_heads");
  if (heads % kv_heads)
    refuse(key.name("attention.head_count_kv", "num_key_value_heads"),
           "a divisor of " + std::to_string(heads) + " (attention.head_count)", kv_heads);
  const int64_t head_dim = key.integer(kHeadDim, "attention.key_length", "head_dim");
  const int64_t value_dim = key.integer_or(head_dim, kHeadDim, "attention.value_length", "head_dim");
  if (value_dim != head_dim)
    refuse(key.name("attention.value_length", "head_dim"), std::to_string(head_dim) + " (attention.key_length)",
           value_dim);
  p.attention = {.heads = heads,
                 .kv_heads = kv_heads,
                 .head_dim = head_dim,
                 .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

void read_rope(const sdk::Keys& key, Params& p) {
  const int64_t head_dim = p.attention.head_dim;
  int64_t n_rot = head_dim;
  if (key.metadata().is_gguf()) {
    n_rot = key.integer_or(head_dim, {2, head_dim}, "rope.dimension_count");
  } else {
    const float share = key.positive_or(0.25f, "", "rope_parameters.partial_rotary_factor", "partial_rotary_factor");
    n_rot = static_cast<int64_t>(share * static_cast<float>(head_dim));
  }
  if (n_rot < 2 || n_rot > head_dim || n_rot % 2)
    refuse(key.name("rope.dimension_count", "rope_parameters.partial_rotary_factor"),
           "an even number of rotary dimensions up to " + std::to_string(head_dim), n_rot);
  const float base = key.positive("rope.freq_base", "rope_parameters.rope_theta", "rope_theta");
  p.rope = {.name = "rope", .inv_freq = sdk::inverse_frequencies(base, n_rot), .base = base, .head_dim = head_dim, .n_rot = n_rot};
  if (const auto sections =
          key.optional<std::vector<int64_t>>("rope.dimension_sections", "rope_parameters.mrope_section")) {
    int64_t pairs = 0;
    for (size_t i = 0; i < sections->size(); ++i) {
      const int64_t s = (*sections)[i];
      if (i >= 4 || s < 0 || s > n_rot / 2)
        refuse(key.name("rope.dimension_sections", "rope_parameters.mrope_section") + "[" + std::to_string(i) + "]",
               "up to 4 sections from 0 to " + std::to_string(n_rot / 2) + " pairs", s);
      p.rope.sections[i] = static_cast<uint32_t>(s);
      pairs += s;
    }
    if (pairs != 0 && pairs != n_rot / 2)
      refuse(key.name("rope.dimension_sections", "rope_parameters.mrope_section"),
             "sections that sum to " + std::to_string(n_rot / 2) + " (half the rotary dimensions)", pairs);
  }
}

void read_delta_net(const sdk::Keys& key, Params& p) {
  const int64_t key_dim = key.integer(kHeadDim, "ssm.state_size", "linear_key_head_dim");
  const int64_t key_heads = key.integer(kHeads, "ssm.group_count", "linear_num_key_heads");
  const int64_t value_heads = key.integer(kHeads, "ssm.time_step_rank", "linear_num_value_heads");
  if (value_heads % key_heads)
    refuse(key.name("ssm.time_step_rank", "linear_num_value_heads"),
           "a multiple of " + std::to_string(key_heads) + " (ssm.group_count, the key heads)", value_heads);
  int64_t value_dim = key_dim;
  if (key.metadata().is_gguf()) {
    // GGUF has one state size for keys and values; the inner size must agree with it.
    const int64_t inner = key.integer(sdk::kAnyCount, "ssm.inner_size");
    if (inner != value_heads * value_dim)
      refuse(key.name("ssm.inner_size"),
             std::to_string(value_heads * value_dim) + " (ssm.time_step_rank × ssm.state_size)", inner);
  } else {
    value_dim = key.integer(kHeadDim, "", "linear_value_head_dim");
  }
  p.conv_taps = key.integer({2, 16}, "ssm.conv_kernel", "linear_conv_kernel_dim");
  // GGUF files order value heads so that head h reads key head h mod nk; Hugging Face files keep h div (nv / nk).
  p.delta = {.key_heads = key_heads,
             .value_heads = value_heads,
             .key_dim = key_dim,
             .value_dim = value_dim,
             .head_map = static_cast<uint32_t>(key.metadata().is_gguf() ? TENON_HEAD_MAP_MOD : TENON_HEAD_MAP_DIV),
             .scale = 1.0f / std::sqrt(static_cast<float>(key_dim))};
}

// Every layer of these models has experts and one that all rows share.
sdk::MixtureOfExperts read_experts(const sdk::Keys& key, int64_t width) {
  constexpr float kLeastSum = 0x1p-14f;  // the smallest normal f16
  sdk::MixtureOfExperts out;
  out.width = width, out.shared_gate = true;
  out.route.n_expert = key.integer({1, 65536}, "expert_count", "num_experts");
  out.route.top_k = key.integer({1, out.route.n_expert}, "expert_used_count", "num_experts_per_tok");
  out.route.floor = kLeastSum;
  if (const float scale = key.optional<float>("expert_weights_scale").value_or(0.0f); scale != 0.0f)
    out.route.scale = key.positive("expert_weights_scale");
  out.inner = key.integer(sdk::kAnyCount, "expert_feed_forward_length", "moe_intermediate_size");
  out.shared_inner =
      key.integer(sdk::kAnyCount, "expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  return out;
}

// A file may announce draft blocks and leave them to another, which then holds them alone.
void read_parts(const sdk::Metadata& meta, int64_t n_trunk, Params& p) {
  const std::string draft = sdk::Weights::block_prefix(n_trunk) + "nextn.eh_proj.weight";
  p.has_draft = p.n_draft > 0 && meta.tensor(meta.is_gguf() ? draft : "mtp.fc.weight").has_value();
  bool has_first = meta.tensor(sdk::Weights::block_prefix(0) + "attn_norm.weight").has_value();
  for (const char* root : {"model.", "model.language_model."})
    has_first = has_first || meta.tensor(std::string(root) + "layers.0.input_layernorm.weight").has_value();
  p.has_trunk = has_first || !p.has_draft;
}

}  // namespace

Params read_params(const sdk::Metadata& meta, const std::string& id) {
  const sdk::Keys key = meta.keys(id);
  Params p;
  p.id = id;
  // GGUF counts the draft blocks in block_count, a config does not.
  const int64_t n_listed = key.integer(sdk::kLayers, "block_count", "num_hidden_layers");
  p.n_draft = key.integer_or(0, {0, 16}, "nextn_predict_layers", "mtp_num_hidden_layers");
  const int64_t n_trunk = meta.is_gguf() ? n_listed - p.n_draft : n_listed;
  if (n_trunk < 1)
    refuse(key.name("nextn_predict_layers"), "fewer than " + std::to_string(n_listed) + " (block_count)", p.n_draft);
  p.width = key.integer(sdk::kAnyCount, "embedding_length", "hidden_size");
  p.context = key.integer_or(0, {0, int64_t{1} << 31}, "context_length", "max_position_embeddings");
  if (id != "qwen35") {
    p.experts = read_experts(key, p.width);
  } else {
    p.ffn_width = key.integer(sdk::kAnyCount, "feed_forward_length", "intermediate_size");
  }
  p.eps = key.positive("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  read_parts(meta, n_trunk, p);
  if (meta.is_gguf()) {
    const auto table = meta.tensor("token_embd.weight");
    if (!table && p.has_trunk)
      throw sdk::Error(TENON_CORRUPT, "tensor token_embd.weight: missing, but " + id + " expects it");
    p.vocab = table ? table->rows() : 0;
    for (int32_t token : meta.unused_tokens())
      if (token < p.vocab) p.never.push_back(token);
  } else {
    p.vocab = key.integer(sdk::kAnyCount, "vocab_size");
  }
  p.file_head_rows = sdk::head_rows(meta, p.vocab);
  p.head_rows = sdk::head_rows(meta, p.vocab, n_trunk);
  p.recurrent = recurrent_layers(key, n_listed, n_trunk);
  read_attention(key, n_listed, p);
  read_rope(key, p);
  read_delta_net(key, p);
  if (id == "qwen3next") p.delta.head_map = TENON_HEAD_MAP_DIV, p.joint_beta_alpha = true;
  return p;
}

}  // namespace tenon::qwen35
