// What crosses between layers of different ranks, and what each rank is left with.
#include "parallel/cut.hpp"

#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include "parallel/rank_share.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tenon::parallel {
namespace {

using Moves = std::vector<std::pair<uint32_t, uint32_t>>;

// Sums of earlier values, `layer` by layer; value 0 is given to every rank.
struct Sums {
  graph::Graph graph;
  Sums() {
    graph.values.emplace_back().cols = 16;
    graph.values[0].input = TENON_INPUT_HIDDEN;
  }
  int32_t add(uint32_t layer, int32_t a, int32_t b) {
    graph.values.emplace_back().cols = 16;
    graph::Node node;
    node.op = TENON_OP_ADD, node.layer = layer, node.in = {a, b}, node.out = {int32_t(graph.values.size()) - 1};
    node.name = "layer " + std::to_string(layer);
    graph.nodes.push_back(node);
    if (layer != graph::kNoLayer) graph.n_layers = std::max(graph.n_layers, layer + 1);
    return node.out[0];
  }
};

Plan plan_of(std::vector<Group> groups) {
  Plan plan;
  for (const Group& group : groups) {
    plan.layers.push_back({group, group, 1});
    for (const uint32_t rank : group) plan.n_ranks = std::max(plan.n_ranks, rank + 1);
  }
  plan.parts = 12;
  return plan;
}

CutGraph cut(const graph::Graph& graph, const Plan& plan, uint32_t rank) {
  return cut_graph(graph, {plan, rank}, [](const graph::Weight&) { return Alignment(); });
}

std::string listed(const CutGraph& cut) {
  std::string out;
  for (const graph::Node& node : cut.graph.nodes) {
    if (!is_exchange(node.op)) {
      out += node.name + "; ";
      continue;
    }
    out += node.purpose == graph::Purpose::kTaps ? "tap" : "";
    for (const Move& move : cut.exchanges[node.attr_as<ExchangeAttr>().index].moves)
      out += std::string(out.empty() || out.back() == ' ' ? "" : " ").append(std::to_string(move.from)).append(">").append(std::to_string(move.to));
    EXPECT_EQ(node.op, uint32_t(node.in.empty() ? TENON_OP_RECV : TENON_OP_SEND));
    EXPECT_NE(node.in.empty(), node.out.empty());
    out += "; ";
  }
  return out;
}

// The i-th of n ranks sends to every reader j with j mod n = i; who has the value gets nothing.
TEST(GraphOfARank, SendsEachValueOnceToThoseWhoLackIt) {
  Sums sums;
  const int32_t a = sums.add(0, 0, 0), b = sums.add(1, a, a);
  sums.graph.logits = sums.add(2, b, a);
  const Plan plan = plan_of({{0, 1}, {2, 4, 3, 1}, {0, 1, 5}});
  EXPECT_EQ(listed(cut(sums.graph, plan, 0)), "layer 0; 0>2 1>4 0>3; 2>0 3>5; 0>5; layer 2; ");
  EXPECT_EQ(listed(cut(sums.graph, plan, 1)), "layer 0; 0>2 1>4 0>3; layer 1; layer 2; ") << "it has the result of layer 1";
  EXPECT_EQ(listed(cut(sums.graph, plan, 2)), "0>2 1>4 0>3; layer 1; 2>0 3>5; ");
  EXPECT_EQ(listed(cut(sums.graph, plan, 3)), "0>2 1>4 0>3; layer 1; 2>0 3>5; ");
  EXPECT_EQ(listed(cut(sums.graph, plan, 4)), "0>2 1>4 0>3; layer 1; ");
  EXPECT_EQ(listed(cut(sums.graph, plan, 5)), "2>0 3>5; 0>5; layer 2; ");
}

TEST(GraphOfARank, LeavesLogitsAndTapsToTheCaller) {
  Sums sums;
  const int32_t a = sums.add(0, 0, 0), b = sums.add(1, a, a);
  sums.graph.logits = sums.add(graph::kNoLayer, b, b);
  sums.graph.taps = {{"a", a}, {"b", b}};
  const Plan plan = plan_of({{0}, {1}});
  const CutGraph caller = cut(sums.graph, plan, 0), other = cut(sums.graph, plan, 1);
  EXPECT_EQ(listed(caller), "layer 0; 0>1; 1>0; tap 1>0; ");
  EXPECT_EQ(listed(other), "0>1; layer 1; layer 4294967295; 1>0; tap 1>0; ");
  EXPECT_GE(caller.graph.logits, 0);
  EXPECT_EQ(caller.graph.taps.at("a"), caller.graph.nodes[0].out[0]);
  EXPECT_EQ(caller.graph.taps.at("b"), caller.graph.nodes[3].out[0]);
  EXPECT_EQ(other.graph.logits, -1);
  EXPECT_EQ(other.graph.taps, (std::map<std::string, int32_t>{{"a", -1}, {"b", -1}}));
}

// Rows of 16 columns; what taps need is not counted.
TEST(GraphOfARank, SaysWhatEachRankSends) {
  Sums sums;
  const int32_t a = sums.add(0, 0, 0), b = sums.add(1, a, a);
  sums.graph.logits = b, sums.graph.taps = {{"b", b}};
  const Plan plan = plan_of({{0}, {1, 2, 3}});
  const graph::Graph* const main = &sums.graph;
  const auto shares = shares_of_ranks({&main, 1}, {plan}, [](const graph::Weight&) { return Alignment(); },
                                      {[](const graph::Weight&) { return 0; }, [](const graph::Store&) { return 0; }});
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_EQ(shares[0].sent_bytes(), 3u * 64);
  EXPECT_EQ(shares[1].sent_bytes(), 64u);
  EXPECT_EQ(shares[2].sent_bytes(), 0u);
  ASSERT_EQ(shares[0].exchanges.size(), 2u);
  EXPECT_EQ(shares[0].exchanges[1].received, 64u);
  EXPECT_EQ(shares[0].exchanges[1].node, "logits");
}

TEST(GraphOfARank, KeepsNoWeightsAndNoMemoryOfOtherLayers) {
  Sums sums;
  const int32_t a = sums.add(0, 0, 0);
  sums.graph.logits = sums.add(1, a, a);
  sums.graph.weights.resize(2);
  sums.graph.stores.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    sums.graph.weights[i].name = "w" + std::to_string(i);
    sums.graph.nodes[i].weight = {int32_t(i)}, sums.graph.nodes[i].store = {int32_t(i)};
  }
  const Plan plan = plan_of({{0}, {1}});
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const graph::Graph own = cut(sums.graph, plan, rank).graph;
    ASSERT_EQ(own.weights.size(), 1u);
    EXPECT_EQ(own.weights[0].name, "w" + std::to_string(rank));
    ASSERT_EQ(own.stores.size(), 2u) << "every rank counts all";
    EXPECT_EQ(own.stores[rank].is_absent, false);
    EXPECT_EQ(own.stores[1 - rank].is_absent, true);
  }
}

TEST(GraphOfARank, RefusesAPlanThatDoesNotFit) {
  Sums sums;
  sums.graph.logits = sums.add(1, sums.add(0, 0, 0), 0);
  EXPECT_THROW(cut(sums.graph, plan_of({{0}}), 0), Error) << "one layer for two";
  EXPECT_THROW(cut(sums.graph, plan_of({{0}, {1}}), 2), Error) << "no such rank";
  EXPECT_THROW(cut(sums.graph, plan_of({{0}, {1, 2, 3, 4, 5}}), 0), Error) << "12 parts for 5 ranks";
}

}  // namespace
}  // namespace tenon::parallel
