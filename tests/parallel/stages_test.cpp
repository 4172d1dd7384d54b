// Where a model is cut into stages.
#include "parallel/stages.hpp"

#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <string>
#include <vector>

namespace tenon::parallel {
namespace {

using First = std::vector<uint32_t>;

LayerCosts even(uint32_t n) { return {std::vector<uint64_t>(n, 100), std::vector<uint64_t>(n, 8), {}}; }

std::string refusal(const LayerCosts& costs, uint32_t n_stages) {
  try {
    pick_stages(costs, n_stages);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Stages, AreEqualWhereLayersAre) {
  EXPECT_EQ(pick_stages(even(6), 1), First({0}));
  EXPECT_EQ(pick_stages(even(6), 2), First({0, 3}));
  EXPECT_EQ(pick_stages(even(6), 3), First({0, 2, 4}));
  EXPECT_EQ(pick_stages(even(6), 6), First({0, 1, 2, 3, 4, 5}));
}

TEST(Stages, TakeTheLowerLayerOfEqualBorders) {
  EXPECT_EQ(pick_stages(even(5), 2), First({0, 2})) << "2 and 3 layers or 3 and 2";
  EXPECT_EQ(pick_stages(even(7), 3), First({0, 1, 4})) << "a stage of 3 there must be, but no more than one of 1";
}

TEST(Stages, WeighLayersByTheirBytes) {
  LayerCosts costs = even(6);
  costs.weight_bytes = {900, 100, 100, 100, 100, 400};  // an embedding table first, a head last
  EXPECT_EQ(pick_stages(costs, 2), First({0, 1}));
  EXPECT_EQ(pick_stages(costs, 3), First({0, 1, 5}));
}

TEST(Stages, CrossWhereFewBytesDo) {
  LayerCosts costs = even(20);
  costs.crossing[11] = 4;
  EXPECT_EQ(pick_stages(costs, 2), First({0, 11})) << "11 layers are within an eighth of 10";
  costs.crossing[11] = 8, costs.crossing[12] = 4;
  EXPECT_EQ(pick_stages(costs, 2), First({0, 10})) << "12 are not";
}

TEST(Stages, KeepLayersTogetherThatShareKeysAndValues) {
  LayerCosts costs = even(6);
  costs.ties = {{1, 4, "layers 1 to 4 share the keys and values of layer 1"}};
  EXPECT_EQ(pick_stages(costs, 2), First({0, 1}));
  EXPECT_EQ(pick_stages(costs, 3), First({0, 1, 5}));
  const std::string said = refusal(costs, 4);
  EXPECT_NE(said.find("4 stages"), std::string::npos) << said;
  EXPECT_NE(said.find("at most 3"), std::string::npos) << said;
  EXPECT_NE(said.find("layers 1 to 4 share the keys and values of layer 1"), std::string::npos) << said;
}

TEST(Stages, AreRefusedWhereThereAreFewerLayers) {
  EXPECT_NE(refusal(even(2), 3).find("a pipeline of 3 stages: this model has 2 layers"), std::string::npos);
  EXPECT_NE(refusal(even(2), 0).find("no stages"), std::string::npos);
}

// What crosses a border is what is made before it and read behind it; a store ties the layers that use it.
TEST(Stages, LookAtValuesWeightsAndStores) {
  graph::Graph graph;
  graph.n_layers = 3;
  graph.values.resize(5);
  for (graph::Value& value : graph.values) value.cols = 16;
  graph.values[4].cols = 64;
  graph.weights.resize(2);
  graph.weights[0].rows = 10, graph.weights[1].rows = 7;
  graph.stores.resize(1);
  const auto add = [&](uint32_t layer, std::vector<int32_t> in, std::vector<int32_t> out, std::vector<int32_t> weight, std::vector<int32_t> store) {
    graph::Node node;
    node.layer = layer, node.in = in, node.out = out, node.weight = weight, node.store = store;
    graph.nodes.push_back(node);
  };
  add(graph::kNoLayer, {}, {0, 4}, {0}, {});
  add(0, {0}, {1}, {1}, {});
  add(1, {1, 4}, {2}, {1}, {0});
  add(2, {2}, {3}, {1}, {0});
  add(graph::kNoLayer, {3}, {}, {0}, {});  // a tied head
  const LayerCosts costs = layer_costs(graph, [](const graph::Weight& weight) { return uint64_t(weight.rows); });
  EXPECT_EQ(costs.weight_bytes, (std::vector<uint64_t>{17, 7, 17}));
  EXPECT_EQ(costs.crossing, (std::vector<uint64_t>{0, 64 + 256, 64}));
  ASSERT_EQ(costs.ties.size(), 1u);
  EXPECT_EQ(costs.ties[0].first, 1u);
  EXPECT_EQ(costs.ties[0].last, 2u);
}

}  // namespace
}  // namespace tenon::parallel
