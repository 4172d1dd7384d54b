// Which tensors the mixes give more bits. The expectations are those of files that common quantizers made.
#include "quantize/recipe.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tenon::quantize {
namespace {

// A dense decoder's names; rows of `cols` columns.
std::vector<TensorShape> decoder(int64_t n_layer, int64_t cols = 4096, bool tied = false) {
  std::vector<TensorShape> out = {{"token_embd.weight", {cols, 32000}}, {"output_norm.weight", {cols}}};
  if (!tied) out.push_back({"output.weight", {cols, 32000}});
  for (int64_t i = 0; i < n_layer; ++i)
    for (const char* name : {"attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
                             "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) {
      const bool is_norm = std::string_view(name).ends_with("_norm.weight");
      out.push_back({"blk." + std::to_string(i) + "." + name, is_norm ? std::vector<int64_t>{cols} : std::vector<int64_t>{cols, 512}});
    }
  return out;
}

int64_t block_cols(std::string_view dtype) {
  return dtype.ends_with("_k") || dtype == "iq4_xs" ? 256 : dtype[0] == 'f' || dtype[0] == 'b' ? 1 : 32;
}

std::map<std::string, std::string> types(const char* recipe, const ModelFacts& facts, const std::vector<TensorShape>& tensors) {
  const Recipe* found = find_recipe(recipe);
  EXPECT_NE(found, nullptr) << recipe;
  const auto names = choose_dtypes(*found, facts, tensors, block_cols);
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < tensors.size(); ++i) out[tensors[i].name] = names[i];
  return out;
}

// How many layers have the part in a type.
int64_t count(const std::map<std::string, std::string>& types, const std::string& part, const std::string& type) {
  int64_t n = 0;
  for (const auto& [name, found] : types) n += name.ends_with("." + part + ".weight") && found == type;
  return n;
}

constexpr ModelFacts kLlama = {32, 0, 4};

TEST(Recipe, Q4KMGivesHalfOfTheLayersMoreBits) {
  const auto found = types("Q4_K_M", kLlama, decoder(32));
  EXPECT_EQ(count(found, "attn_v", "q6_k"), 16);
  EXPECT_EQ(count(found, "ffn_down", "q6_k"), 16);
  EXPECT_EQ(found.at("blk.3.attn_v.weight"), "q6_k");
  EXPECT_EQ(found.at("blk.4.attn_v.weight"), "q4_k");
  EXPECT_EQ(found.at("blk.6.ffn_down.weight"), "q6_k");
  EXPECT_EQ(found.at("blk.28.ffn_down.weight"), "q6_k");
  EXPECT_EQ(count(found, "attn_q", "q4_k"), 32);
  EXPECT_EQ(found.at("output.weight"), "q6_k");
  EXPECT_EQ(found.at("token_embd.weight"), "q4_k");
  EXPECT_EQ(found.at("blk.0.attn_norm.weight"), "f32");
  EXPECT_EQ(types("Q5_K_M", kLlama, decoder(32)).at("blk.4.attn_v.weight"), "q5_k");
}

TEST(Recipe, SmallMixesStepUpInFront) {
  const auto q4 = types("Q4_K_S", kLlama, decoder(32));
  EXPECT_EQ(count(q4, "attn_v", "q5_k"), 4);
  EXPECT_EQ(count(q4, "ffn_down", "q5_k"), 4);
  EXPECT_EQ(count(q4, "attn_output", "q4_k"), 32);
  EXPECT_EQ(count(types("Q5_K_S", kLlama, decoder(32)), "attn_v", "q5_k"), 32);
  EXPECT_EQ(count(types("Q3_K_S", kLlama, decoder(32)), "ffn_down", "q3_k"), 32);
}

TEST(Recipe, ThreeAndTwoBitsKeepMoreOfSomeParts) {
  const auto medium = types("Q3_K_M", kLlama, decoder(32));
  EXPECT_EQ(count(medium, "attn_v", "q5_k"), 2);
  EXPECT_EQ(count(medium, "attn_v", "q4_k"), 30);
  EXPECT_EQ(count(medium, "ffn_down", "q5_k"), 2);
  EXPECT_EQ(count(medium, "attn_output", "q4_k"), 32);
  const auto large = types("Q3_K_L", kLlama, decoder(32));
  for (const char* part : {"attn_v", "ffn_down", "attn_output"}) EXPECT_EQ(count(large, part, "q5_k"), 32) << part;
  EXPECT_EQ(count(types("Q2_K", kLlama, decoder(32)), "attn_v", "q4_k"), 32);
  EXPECT_EQ(count(types("Q2_K", {32, 0, 1}, decoder(32)), "attn_v", "q3_k"), 32);
  EXPECT_EQ(count(types("IQ4_XS", kLlama, decoder(32)), "attn_v", "q5_k"), 32);
  EXPECT_EQ(count(types("IQ4_XS", {32, 0, 2}, decoder(32)), "attn_v", "iq4_xs"), 32);
}

TEST(Recipe, TiedEmbeddingsAreTheHead) {
  EXPECT_EQ(types("Q4_0", kLlama, decoder(2, 4096, true)).at("token_embd.weight"), "q6_k");
  EXPECT_EQ(types("Q8_0", kLlama, decoder(2, 4096, true)).at("token_embd.weight"), "q8_0");
}

TEST(Recipe, RowsThatFitNoBlockFallBack) {
  EXPECT_EQ(types("Q4_K_S", kLlama, decoder(8, 96)).at("blk.5.attn_q.weight"), "q5_0");
  EXPECT_EQ(types("Q6_K", kLlama, decoder(8, 96)).at("output.weight"), "q8_0");
  EXPECT_EQ(types("IQ4_XS", kLlama, decoder(8, 96)).at("blk.5.attn_q.weight"), "iq4_nl");
  for (const char* recipe : {"Q4_K_M", "Q8_0", "MXFP4"})
    EXPECT_EQ(types(recipe, kLlama, decoder(8, 100)).at("blk.5.attn_q.weight"), "f16") << recipe;
}

TEST(Recipe, ExpertsAloneAreFourBits) {
  auto tensors = decoder(2);
  tensors.push_back({"blk.0.ffn_up_exps.weight", {4096, 512, 128}});
  tensors.push_back({"blk.0.ffn_down_exps.weight", {512, 4096, 128}});
  tensors.push_back({"blk.0.ffn_gate_inp.weight", {4096, 128}});
  const auto found = types("MXFP4_MOE", kLlama, tensors);
  EXPECT_EQ(found.at("blk.0.ffn_up_exps.weight"), "mxfp4");
  EXPECT_EQ(found.at("blk.0.ffn_down_exps.weight"), "mxfp4");
  EXPECT_EQ(found.at("blk.0.ffn_gate_inp.weight"), "f32");
  EXPECT_EQ(found.at("blk.0.ffn_up.weight"), "q8_0");
}

TEST(Recipe, NamesComeInEitherCaseAndShortForms) {
  EXPECT_EQ(find_recipe("q4_k_m")->name, "Q4_K_M");
  EXPECT_EQ(find_recipe("Q4_K")->name, "Q4_K_M");
  EXPECT_EQ(find_recipe("q3_k")->name, "Q3_K_M");
  EXPECT_EQ(find_recipe("IQ2_XXS"), nullptr);
  EXPECT_EQ(find_recipe(""), nullptr);
}

// Odd names come from files.
TEST(Recipe, TakesAnyName) {
  const auto found = types("Q4_K_M", {}, {{"blk.", {256, 1}}, {"blk.7", {256, 1}}, {"blk.x.weight", {256, 1}}, {"", {256, 1}},
                                          {"blk.99999999999999999999.attn_v.weight", {256, 4}}});
  EXPECT_EQ(found.at("blk.7"), "f32");
}

}  // namespace
}  // namespace tenon::quantize
