#include "recipe.hpp"

#include <algorithm>
#include <charconv>
#include <cctype>

namespace tenon::quantize {
namespace {

constexpr RecipeStep kHeadQ6 = {Part::kHead, Where::kEverywhere, "q6_k"};
constexpr RecipeStep kValueOf8 = {Part::kValue, Where::kEightExperts, "q8_0"};
constexpr RecipeStep kKeyOf8 = {Part::kKey, Where::kEightExperts, "q8_0"};
constexpr RecipeStep kOutputOf8 = {Part::kAttentionOutput, Where::kEightExperts, "q5_k"};

// Every block type: the head at six bits, and what all heads share in models of eight experts at eight.
std::vector<RecipeStep> mix(std::vector<RecipeStep> own) {
  std::vector<RecipeStep> steps = {kHeadQ6, kValueOf8, kKeyOf8};
  steps.insert(steps.end(), own.begin(), own.end());
  return steps;
}

// Numbers: llama_ftype of llama.cpp's llama.h.
const std::vector<Recipe>& recipes() {
  using enum Part;
  using enum Where;
  static const std::vector<RecipeStep> kFourBit = {kOutputOf8, {kValue, kSharedKeys, "q5_k"}, {kDown, kFirstEighth, "q5_k"}};
  static const std::vector<Recipe> all = {
      {"F32", "f32", 0, {}},
      {"F16", "f16", 1, {}},
      {"BF16", "bf16", 32, {}},
      {"Q8_0", "q8_0", 7, {}},
      {"Q4_0", "q4_0", 2, mix({})},
      {"Q4_1", "q4_1", 3, mix({})},
      {"Q5_0", "q5_0", 8, mix({})},
      {"Q5_1", "q5_1", 9, mix({})},
      {"Q2_K", "q2_k", 10,
       mix({kOutputOf8, {kValue, kSharedKeys, "q4_k"}, {kValue, kEverywhere, "q3_k"}, {kDown, kEverywhere, "q3_k"},
            {kAttentionOutput, kEverywhere, "q3_k"}})},
      {"Q3_K_S", "q3_k", 11, mix({kOutputOf8})},
      {"Q3_K_M", "q3_k", 12,
       mix({kOutputOf8, {kValue, kFirstTwo, "q5_k"}, {kValue, kEverywhere, "q4_k"}, {kDown, kFirstSixteenth, "q5_k"},
            {kDown, kEverywhere, "q4_k"}, {kAttentionOutput, kEverywhere, "q4_k"}})},
      {"Q3_K_L", "q3_k", 13,
       mix({{kValue, kEverywhere, "q5_k"}, {kDown, kEverywhere, "q5_k"}, {kAttentionOutput, kEverywhere, "q5_k"}})},
      {"Q4_K_S", "q4_k", 14, mix({kOutputOf8, {kValue, kFirstFour, "q5_k"}, {kDown, kFirstEighth, "q5_k"}})},
      {"Q4_K_M", "q4_k", 15, mix({kOutputOf8, {kValue, kSpread, "q6_k"}, {kDown, kSpread, "q6_k"}})},
      {"Q5_K_S", "q5_k", 16, mix({})},
      {"Q5_K_M", "q5_k", 17, mix({{kValue, kSpread, "q6_k"}, {kDown, kSpread, "q6_k"}})},
      {"Q6_K", "q6_k", 18, mix({})},
      {"IQ4_NL", "iq4_nl", 25, mix(kFourBit)},
      {"IQ4_XS", "iq4_xs", 30, mix(kFourBit)},
      {"MXFP4", "mxfp4", -1, mix({})},
      {"MXFP4_MOE", "q8_0", 38, {{kExpert, kEverywhere, "mxfp4"}}},
  };
  return all;
}

int64_t layer_of(std::string_view name) {
  int64_t layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// The name behind "blk.N.".
std::string_view part_name(std::string_view name) {
  if (layer_of(name) < 0) return name;
  return name.substr(std::min(name.find('.', 4), name.size() - 1) + 1);
}

Part part_of(const TensorShape& tensor, bool has_head) {
  const std::string_view part = part_name(tensor.name);
  if (part == "output.weight" || (!has_head && (part == "token_embd.weight" || part == "per_layer_token_embd.weight")))
    return Part::kHead;
  if (part == "attn_v.weight" || part == "attn_qkv.weight") return Part::kValue;
  if (part == "attn_k.weight") return Part::kKey;
  if (part == "attn_output.weight") return Part::kAttentionOutput;
  if (part.starts_with("ffn_down") && tensor.dim.size() < 3) return Part::kDown;
  if (tensor.dim.size() > 2) return part.starts_with("ffn_down") ? Part::kDown : Part::kExpert;
  return Part::kOther;
}

bool applies(Where where, int64_t i, int64_t n, const ModelFacts& facts) {
  switch (where) {
    case Where::kEverywhere: return true;
    case Where::kSpread: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case Where::kFirstEighth: return i < n / 8;
    case Where::kFirstSixteenth: return i < n / 16;
    case Where::kFirstTwo: return i < 2;
    case Where::kFirstFour: return i < 4;
    case Where::kSharedKeys: return facts.queries_per_key >= 4;
    case Where::kEightExperts: return facts.n_expert == 8;
  }
  return false;
}

enum class Treatment { kQuantize, kFloat, kAsItIs };

Treatment treatment_of(const TensorShape& tensor) {
  const std::string_view part = part_name(tensor.name);
  if (tensor.dim.size() < 2 || !part.ends_with("weight") || part.ends_with("_norm.weight")) return Treatment::kFloat;
  // Routers decide by small differences; a convolution has a handful of taps.
  if (part == "ffn_gate_inp.weight" || part == "ssm_conv1d.weight") return Treatment::kFloat;
  if (part == "per_layer_model_proj.weight") return Treatment::kAsItIs;
  return Treatment::kQuantize;
}

std::string fitting(std::string_view dtype, int64_t cols, const std::function<int64_t(std::string_view)>& block_cols) {
  static constexpr std::string_view kStandIns[][2] = {{"q2_k", "iq4_nl"}, {"q3_k", "iq4_nl"}, {"iq4_xs", "iq4_nl"},
                                                      {"q4_k", "q5_0"},   {"q5_k", "q5_1"},   {"q6_k", "q8_0"}};
  if (cols % block_cols(dtype) == 0) return std::string(dtype);
  for (const auto& [wide, narrow] : kStandIns)
    if (wide == dtype && cols % block_cols(narrow) == 0) return std::string(narrow);
  return "f16";
}

}  // namespace

const Recipe* find_recipe(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
  for (const Recipe& recipe : recipes())
    if (recipe.name == upper) return &recipe;
  return nullptr;
}

std::string recipe_names() {
  std::string out;
  for (const Recipe& recipe : recipes()) out += (out.empty() ? "" : ", ") + std::string(recipe.name);
  return out;
}

std::vector<std::string> choose_dtypes(const Recipe& recipe, const ModelFacts& facts, const std::vector<TensorShape>& tensors,
                                       const std::function<int64_t(std::string_view)>& block_cols) {
  const bool has_head = std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "output.weight"; });
  // Values are counted by themselves, since hybrid models do not have them in every layer.
  std::vector<int64_t> value_layers;
  for (const TensorShape& tensor : tensors)
    if (part_of(tensor, has_head) == Part::kValue) value_layers.push_back(layer_of(tensor.name));
  std::sort(value_layers.begin(), value_layers.end());
  const auto place_among_values = [&](int64_t layer) {
    return std::lower_bound(value_layers.begin(), value_layers.end(), layer) - value_layers.begin();
  };
  std::vector<std::string> out;
  for (const TensorShape& tensor : tensors) {
    const Treatment treatment = treatment_of(tensor);
    if (treatment == Treatment::kFloat) {
      out.emplace_back("f32");
      continue;
    }
    if (treatment == Treatment::kAsItIs && !recipe.is_float()) {
      out.emplace_back();
      continue;
    }
    const Part part = part_of(tensor, has_head);
    const int64_t layer = layer_of(tensor.name);
    const bool is_value = part == Part::kValue;
    const int64_t i = is_value ? place_among_values(layer) : layer;
    const int64_t n = is_value ? int64_t(value_layers.size()) : facts.n_layer;
    std::string_view dtype = recipe.dtype;
    for (const RecipeStep& step : recipe.steps) {
      const bool is_stack = step.part == Part::kExpert && tensor.dim.size() > 2;
      if ((step.part != part && !is_stack) || !applies(step.where, i, n, facts)) continue;
      dtype = step.dtype;
      break;
    }
    out.push_back(fitting(dtype, tensor.dim[0], block_cols));
  }
  return out;
}

}  // namespace tenon::quantize
