// sdk_test.cpp: helpers of the architecture SDK that need no plugin.
#include <gtest/gtest.h>

#include <tenon/sdk/metadata.hpp>
#include <tenon/sdk/rope.hpp>
#include <tenon/sdk/weights.hpp>

#include "fake_host.hpp"

namespace tenon::test {
namespace {

class Sdk : public ::testing::Test {
 protected:
  Sdk() { sdk::host_slot() = fake_host(); }
  tenon_meta meta;
};

template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const sdk::Error& error) {
    EXPECT_EQ(error.status(), TENON_CORRUPT);
    return error.what();
  }
  return "nothing thrown";
}

TEST_F(Sdk, SchemePicksTheSpelling) {
  meta.set("a.block_count", 4);
  meta.set("num_hidden_layers", 5);
  meta.set("text_config.num_hidden_layers", 6);
  const auto read = [&] {
    return sdk::Metadata(&meta).keys("a").required<int64_t>("block_count", "num_hidden_layers");
  };
  EXPECT_EQ(read(), 4);
  meta.scheme = "hf";
  EXPECT_EQ(read(), 6);
  meta.values.erase("text_config.num_hidden_layers");
  EXPECT_EQ(read(), 5);
  meta.values.erase("num_hidden_layers");
  EXPECT_EQ(message_of(read), "num_hidden_layers: expected a value (a needs it), found no such key");
}

TEST_F(Sdk, OneNumberServesEveryLayerAndAListMustFit) {
  meta.set("a.heads", 3);
  const sdk::Metadata m(&meta);
  const auto key = m.keys("a");
  EXPECT_EQ(key.per_layer(2, {1, 8}, "heads"), (std::vector<int64_t>{3, 3}));
  meta.set_array("a.heads", TENON_VALUE_I32, {3, 9});
  EXPECT_EQ(message_of([&] {
              key.per_layer(2, {1, 8}, "heads");
            }),
            "a.heads[1]: expected an integer from 1 to 8, found 9");
  EXPECT_EQ(message_of([&] {
              key.per_layer(3, {1, 9}, "heads");
            }),
            "a.heads: expected one number or an array of 3 (one a layer), found an array of 2");
}

TEST_F(Sdk, NullIsAbsentAndTypesAreChecked) {
  meta.values["a.cap"] = {};
  meta.set_real("a.real", 2.5);
  const sdk::Metadata m(&meta);
  const auto key = m.keys("a");
  EXPECT_FALSE(key.optional<float>("cap").has_value());
  EXPECT_EQ(message_of([&] { key.required<int64_t>("real"); }), "a.real: expected an integer, found 2.5");
  EXPECT_EQ(message_of([&] { key.required<std::string>("real"); }), "a.real: expected a string, found 2.5");
  meta.values["a.big"] = {TENON_VALUE_U64, 0, {-1}, {}};
  EXPECT_EQ(message_of([&] { key.required<int64_t>("big"); }),
            "a.big: expected an integer below 2^63, found 18446744073709551615");
}

TEST(NameRules, FirstFittingPatternGivesTheSource) {
  sdk::NameRules rules("hf", nullptr);
  rules.rule("blk.{i}.attn_q.weight", "model.layers.{i}.self_attn.q_proj.weight");
  std::string source;
  ASSERT_NE(rules.match("blk.12.attn_q.weight", &source), nullptr);
  EXPECT_EQ(source, "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(rules.match("blk..attn_q.weight", &source), nullptr);
  EXPECT_EQ(rules.match("blk.x.attn_q.weight", &source), nullptr);
  EXPECT_EQ(rules.match("blk.1.attn_k.weight", &source), nullptr);
}

TEST(Weights, RefusesAWeightDeclaredTwiceOrNever) {
  sdk::Weights w;
  w.block(0).norm("attn_norm.weight", 8);
  EXPECT_THROW(w.block(0).norm("attn_norm.weight", 8), sdk::Error);
  EXPECT_THROW(w.at("blk.1.attn_norm.weight"), sdk::Error);
  EXPECT_EQ(w.at("blk.0.attn_norm.weight").table().flags, uint32_t{TENON_DECL_NORM | TENON_DECL_KEEP_FLOAT});
}

TEST(Weights, HeadsAreUnitsOfTheAxisThatIsCut) {
  sdk::Weights w;
  const auto column = w.column("q", {64, 32}).heads(4).table();
  EXPECT_EQ(column.segment[0].rows, 64);
  EXPECT_EQ(column.segment[0].unit, 16u);
  const auto row = w.row("o", {32, 64}).heads(8).table();
  EXPECT_EQ(row.segment[0].rows, 64);
  EXPECT_EQ(row.segment[0].unit, 8u);
}

TEST_F(Sdk, AllMissingTensorsAreInOneMessage) {
  meta.scheme = "hf";
  meta.tensors = {{"a", {8}}, {"q", {8, 4}}, {"odd", {3}}, {"expert.1.gate", {8, 2}}};
  sdk::Weights w;
  w.norm("a", 8), w.norm("b", 8), w.norm("odd", 8);
  w.column("m", {4, 8}), w.column("qkv", {12, 8}), w.column("up", {2, 8}), w.column("gate", {2, 8});
  w.norm("c", 8).optional();
  w.expert("gate_exps", {2, 8}, 2), w.expert("up_exps", {2, 8}, 2);
  const sdk::Metadata m(&meta);
  sdk::NameRules rules("hf", &m);
  for (const char* name : {"a", "b", "c", "m", "odd"}) rules.rule(name, name);
  rules.join_rows("qkv", {"q", "k", "v"});
  rules.slice_rows("gate", "gate_up", 0, 2, 4), rules.slice_rows("up", "gate_up", 2, 4, 4);
  rules.stack_experts("gate_exps", "expert.{e}.gate"), rules.stack_experts("up_exps", "expert.{e}.up");
  const auto check = [&] { sdk::check_tensors("x", w, rules, m); };
  EXPECT_EQ(message_of(check), "6 tensors are missing, which x expects: b [8], m [8, 4], k, v, gate_up, expert.{e}.up");
  for (const char* name : {"k", "v", "gate_up", "expert.0.up"}) meta.tensors[name] = {8, 4};
  meta.tensors["m"] = {8, 4};
  EXPECT_EQ(message_of(check), "tensor b: missing, but x expects it with shape [8]");
  meta.tensors["b"] = {8};
  EXPECT_EQ(message_of(check), "tensor odd: shape [3], but x expects [8]");
  meta.tensors["odd"] = {8};
  EXPECT_EQ(message_of(check), "nothing thrown");
}

TEST_F(Sdk, AHeadMayBeAbsentUnlessTheConfigSaysItIsATableOfItsOwn) {
  sdk::Weights w;
  w.vocab("token_embd.weight", {8, 4}), w.vocab("output.weight", {8, 4}).tied_to("token_embd.weight");
  meta.tensors = {{"token_embd.weight", {4, 8}}};
  const auto message = [&](const char* scheme, int outer, int inner) {
    meta.scheme = scheme, meta.values.clear();
    for (const auto& [key, value] :
         {std::pair("tie_word_embeddings", outer), {"text_config.tie_word_embeddings", inner}})
      if (value >= 0) meta.values[key] = {TENON_VALUE_BOOL, 0, {double(value)}, {}};
    const sdk::Metadata m(&meta);
    sdk::NameRules rules(scheme, &m);
    rules.same_names(w);
    return message_of([&] { sdk::check_tensors("x", w, rules, m); });
  };
  const std::string refused = "tensor output.weight: missing, but x expects it with shape [4, 8]",
                    taken = "nothing thrown";
  EXPECT_EQ(message("hf", -1, -1), taken);
  EXPECT_EQ(message("hf", 1, -1), taken);
  EXPECT_EQ(message("hf", 0, -1), refused);
  EXPECT_EQ(message("hf", -1, 0), refused);
  EXPECT_EQ(message("hf", 0, 1), taken);
  EXPECT_EQ(message("hf", 1, 0), taken);
  EXPECT_EQ(message("gguf", 0, -1), taken);
}

TEST(Rope, FrequenciesAreComputedInFloat) {
  const auto inv = sdk::inverse_frequencies(10000.0f, 64);
  ASSERT_EQ(inv.size(), 32u);
  EXPECT_EQ(inv[0], 1.0f);
  EXPECT_EQ(inv[5], 1.0f / std::pow(10000.0f, 10.0f / 64.0f));
  EXPECT_EQ(sdk::scale_linear(inv, 8.0f)[3], inv[3] / 8.0f);
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const auto inv = sdk::inverse_frequencies(500000.0f, 64);
  const auto scaled = sdk::scale_llama3(inv, 8.0f, 1.0f, 4.0f, 1024.0f);
  EXPECT_EQ(scaled[0], inv[0]);
  EXPECT_EQ(scaled[31], inv[31] / 8.0f);
  size_t between = 0;
  for (size_t i = 0; i < inv.size(); ++i) {
    EXPECT_LE(scaled[i], inv[i]);
    EXPECT_GE(scaled[i], inv[i] / 8.0f * 0.999999f);
    between += scaled[i] != inv[i] && scaled[i] != inv[i] / 8.0f;
  }
  EXPECT_GT(between, 0u);
}

// Values of the paper's formulas in double precision: 128 columns, base 1e6, factor 4, 32768 positions.
TEST(Rope, YarnBlendsBetweenTheTwoBorders) {
  const sdk::Yarn yarn = {.factor = 4, .original_context = 32768};
  const auto inv = sdk::scale_yarn(sdk::inverse_frequencies(1e6f, 128), 1e6f, yarn);
  const std::pair<size_t, float> expected[] = {{0, 1.0f},          {20, 1.333521e-2f},  {23, 6.978306e-3f},
                                               {24, 5.375321e-3f}, {30, 1.0643610e-3f}, {35, 2.4625841e-4f},
                                               {39, 6.490394e-5f}, {40, 4.445699e-5f},  {63, 3.1023444e-7f}};
  for (const auto& [i, value] : expected) EXPECT_NEAR(inv[i] / value, 1, 1e-5) << i;
  EXPECT_FLOAT_EQ(yarn.magnitude(), 1.13862944f);
}

TEST(Rope, ProportionalRotationLeavesTheRestAtRest) {
  const auto inv = sdk::proportional_frequencies(1e6f, 512, 0.25f);
  ASSERT_EQ(inv.size(), 256u);
  EXPECT_EQ(inv[63], 1.0f / std::pow(1e6f, 126.0f / 512.0f));
  EXPECT_EQ(inv[64], 0.0f);
  EXPECT_EQ(inv[255], 0.0f);
}

}  // namespace
}  // namespace tenon::test
