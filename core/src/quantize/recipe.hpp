// recipe.hpp: which dtype each tensor of a quantized file gets: one for most matrices, and more bits where the field's
// mixes (llama.cpp's Q4_K_M and its relatives) have found that they count.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::quantize {

// What a tensor is for, as far as recipes tell them apart.
enum class Part { kOther, kHead, kValue, kKey, kAttentionOutput, kDown, kExpert };

// Where in the model a step applies.
enum class Where {
  kEverywhere,
  kSpread,         // the first and last eighth of the layers, and every third between
  kFirstEighth,
  kFirstSixteenth,
  kFirstTwo,
  kFirstFour,
  kSharedKeys,     // models in which four or more query heads share a key head
  kEightExperts    // models of eight experts
};

struct RecipeStep {
  Part part;
  Where where;
  std::string_view dtype;
};

struct Recipe {
  std::string_view name;   // "Q4_K_M"
  std::string_view dtype;  // of most matrices: "q4_k"
  int file_type;           // general.file_type of such GGUF files; -1 = there is none
  std::vector<RecipeStep> steps;  // the first that fits a tensor decides
  bool is_float() const { return dtype == "f32" || dtype == "f16" || dtype == "bf16"; }
};

// By the names that field users know, in either case; Q3_K, Q4_K and Q5_K mean the _M mixes. Null for another name.
const Recipe* find_recipe(std::string_view name);
std::string recipe_names();  // "F32, F16, …"

struct ModelFacts {
  int64_t n_layer = 0, n_expert = 0, queries_per_key = 1;
};

struct TensorShape {
  std::string name;  // GGUF's
  std::vector<int64_t> dim;
};

// A dtype's name for each tensor, in the order given. Empty = the source's own: for tensors that other programs read as
// they are. `block_cols` answers the columns of a block of a dtype; where a row is no whole number of blocks, a type of
// 32 columns steps in, or f16.
std::vector<std::string> choose_dtypes(const Recipe& recipe, const ModelFacts& facts, const std::vector<TensorShape>& tensors,
                                       const std::function<int64_t(std::string_view)>& block_cols);

}  // namespace tenon::quantize
