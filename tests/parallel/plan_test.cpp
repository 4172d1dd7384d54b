// Which ranks have which layer: the grammar of lists, numbers, and what cannot be.
#include "parallel/plan.hpp"

#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tenon::parallel {
namespace {

using Ranks = std::vector<uint32_t>;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "";
}
std::string list_refusal(std::string_view text, bool takes_all = false) {
  return refusal([&] { parse_layer_ranks("--expert-parallel", text, 45, takes_all); });
}
void expect_in(const std::string& text, std::string_view part) { EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part; }

TEST(RankLists, NoListIsEmpty) {
  EXPECT_TRUE(parse_layer_ranks("--expert-parallel", "", 45, false).empty());
  EXPECT_TRUE(parse_layer_ranks("--expert-parallel", "0", 45, false).empty());
}

TEST(RankLists, LayersAndRangesInWrittenOrder) {
  EXPECT_EQ(parse_layer_ranks("--expert-parallel", "24@1,2", 45, false), (std::vector<LayerRanks>{{24, {1, 2}}}));
  EXPECT_EQ(parse_layer_ranks("--expert-parallel", "31@0,2;24-25@2,1", 45, false), (std::vector<LayerRanks>{{31, {0, 2}}, {24, {2, 1}}, {25, {2, 1}}}));
  EXPECT_EQ(parse_layer_ranks("--expert-parallel", "0-127@0,1", 45, false).size(), 128u);
  EXPECT_EQ(parse_layer_ranks("--expert-parallel", "4000000000@0,1", 45, false).size(), 1u);
}

TEST(RankLists, AllLayersForTensorsOnly) {
  const auto all = parse_layer_ranks("--tensor-parallel", "all@0,1,2,3,4,5,6,7", 45, true);
  ASSERT_EQ(all.size(), 45u);
  EXPECT_EQ(all[44].layer, 44u);
  EXPECT_EQ(all[44].ranks.size(), 8u);
  EXPECT_EQ(parse_layer_ranks("--tensor-parallel", "all@0,1", 200, true).size(), 200u) << "the limit of a range is not that of all";
  expect_in(list_refusal("all@0,1"), "name the layers that have experts");
  expect_in(refusal([] { parse_layer_ranks("--tensor-parallel", "all@0,1;44@0,1", 45, true); }), "layer 44 is in \"all@0,1\" and in \"44@0,1\"");
}

TEST(RankLists, RefusalsNameOptionAndItem) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"24@1", "at least two"},   {"24@1,1", "rank 1 is named twice"}, {"x@0,1", "\"x\" is neither a layer nor a range"}, {"-1@0,1", "neither a layer"},
      {"7-4@0,1", "reversed"},    {"0-128@0,1", "129 layers"},         {"1-3@0,1;3@0,1", "layer 3 is in"},                {"24@0,1;", "expected layers@ranks"},
      {"24", "expected layers@"}, {" 24@0,1", "\" 24\" is neither"},   {"24@0, 1", "\" 1\" is no rank"},                  {"24@0,64", "no rank from 0 to 63"},
      {"24@", "\"\" is no rank"}, {"@0,1", "\"\" is neither"},         {"4294967296@0,1", "neither a layer"},             {"0-4294967295@0,1", "4294967296 layers"},
      {"1-@0,1", "neither"},      {"1@0,1@2", "no rank"}};
  for (const auto& [text, part] : cases) {
    const std::string message = list_refusal(text);
    expect_in(message, part);
    expect_in(message, "--expert-parallel");
  }
}

PlanOptions numbers(uint32_t tensor, uint32_t experts, uint32_t pipeline = 1) {
  PlanOptions out;
  out.tensor = tensor, out.experts = experts, out.pipeline = pipeline;
  return out;
}

TEST(RankPlan, OneRankByDefault) {
  const Plan plan = make_plan({}, 3);
  EXPECT_EQ(plan.n_ranks, 1u);
  EXPECT_EQ(plan.layers, (std::vector<Plan::Layer>(3, {{0}, {0}, 1})));
  EXPECT_EQ(make_plan({}, 0).layers.size(), 1u) << "nodes of no layer have a place too";
}

TEST(RankPlan, ExpertsAreDealtToTheRanksOfTheLayer) {
  const Plan both = make_plan(numbers(4, 2), 1);
  EXPECT_EQ(both.n_ranks, 4u);
  EXPECT_EQ(both.layers[0], (Plan::Layer{{0, 1, 2, 3}, {0, 1, 2, 3}, 2}));
  EXPECT_EQ(both.parts, 4u);
  EXPECT_EQ(both.expert_parts, 2u) << "two ranks cut the experts of an owner";
  const Plan more = make_plan(numbers(1, 3), 1);
  EXPECT_EQ(more.layers[0], (Plan::Layer{{0}, {0, 1, 2}, 3})) << "attention stays with the first";
  EXPECT_EQ(more.expert_parts, 1u);
  expect_in(refusal([] { make_plan(numbers(4, 3), 1); }), "4 ranks cannot be dealt to 3 owners");
}

TEST(RankPlan, StagesFollowOneAnother) {
  const Plan plan = make_plan(numbers(2, 1, 2), 5, [](uint32_t n) {
    EXPECT_EQ(n, 2u);
    return std::vector<uint32_t>{0, 3};
  });
  EXPECT_EQ(plan.n_ranks, 4u);
  EXPECT_EQ(plan.layers[2].tensor, (Ranks{0, 1}));
  EXPECT_EQ(plan.layers[3].tensor, (Ranks{2, 3}));
  expect_in(refusal([] { make_plan(numbers(1, 1, 3), 2); }), "the model has 2 layers");
  expect_in(refusal([] { make_plan(numbers(16, 1, 8), 20); }), "at most 64");
  expect_in(refusal([] { make_plan(numbers(0, 1), 2); }), "--tensor-parallel: expected 1 to 64, found 0");
}

TEST(RankPlan, ListsGiveLayersToRanks) {
  PlanOptions options;
  options.tensor_layers = "0@0,1;2@2,3", options.expert_layers = "1@1,0";
  EXPECT_EQ(count_ranks(options), 4u);
  const Plan plan = make_plan(options, 4);
  EXPECT_EQ(plan.layers[0], (Plan::Layer{{0, 1}, {0, 1}, 1}));
  EXPECT_EQ(plan.layers[1], (Plan::Layer{{0}, {1, 0}, 2}));
  EXPECT_EQ(plan.layers[2], (Plan::Layer{{2, 3}, {2, 3}, 1}));
  EXPECT_EQ(plan.layers[3], (Plan::Layer{{0}, {0}, 1})) << "what no list names is rank 0's";
}

TEST(RankPlan, ListsThatCannotBe) {
  const auto lists = [](const char* tensor, const char* experts) {
    return refusal([&] {
      PlanOptions options;
      options.tensor_layers = tensor, options.expert_layers = experts;
      make_plan(options, 4);
    });
  };
  expect_in(lists("0@0,1", "0@0,1"), "layer 0 is in the list of --tensor-parallel too");
  expect_in(lists("4@0,1", ""), "--tensor-parallel: layer 4, but the model has layers 0 to 3");
  expect_in(lists("", "1@1,2"), "rank 0, which has the layer, is not among 1,2");
  expect_in(lists("0@0,2", ""), "leave rank 1 of 3 without a layer");
  PlanOptions mixed = numbers(1, 1, 2);
  mixed.tensor_layers = "0@0,1";
  expect_in(refusal([&] { make_plan(mixed, 4); }), "--pipeline-parallel 2: a number cannot stand beside a list");
}

TEST(RankPlan, PartsCanBeDealtToEveryGroup) {
  PlanOptions options;
  options.tensor_layers = "0@0,1;1@0,1,2";
  EXPECT_EQ(make_plan(options, 2).parts, 0u) << "each layer as many as its ranks";
  options.sum_parts = 4;
  expect_in(refusal([&] { make_plan(options, 2); }), "4 parts of a sum cannot be dealt to 3 ranks");
  PlanOptions same = numbers(2, 1);
  same.sum_parts = 4;
  EXPECT_EQ(make_plan(same, 1).expert_parts, 4u) << "as four ranks would have";
  same.experts = 2;
  EXPECT_EQ(make_plan(same, 1).expert_parts, 1u) << "whole experts";
  same.expert_parts = 3;
  EXPECT_EQ(make_plan(same, 1).expert_parts, 3u);
}

}  // namespace
}  // namespace tenon::parallel
