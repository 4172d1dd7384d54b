// Experts between file and kernel: name rules that stack and cut, types, and the table of where each expert lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <tenon/error.hpp>

#include "fakes.hpp"
#include "graph/builder.hpp"
#include "program/weights.hpp"

namespace tenon::core_test {
namespace {

constexpr int64_t kExperts = 3, kWidth = 8, kHidden = 4;

class ExpertsTest : public ::testing::Test {
 protected:
  ExpertsTest() {
    source_.add("table", 16, kWidth);
    source_.add("router", kExperts, kWidth);
    source_.add("out", 16, kWidth);
  }
  void add_stacks() {
    for (const char* name : {"gate", "up"}) source_.add_stack(name, kExperts, kHidden, kWidth);
    source_.add_stack("down", kExperts, kWidth, kHidden);
  }
  void add_rule(const char* canonical, const char* source, uint32_t transform, int64_t a = 0, int64_t b = 0,
                uint32_t axis = 0) {
    rules_.push_back({str(canonical), str(source), transform, axis, a, b});
  }
  graph::Graph make(uint32_t top_k = 2, uint32_t n_expert = kExperts) {
    names_ = std::make_unique<graph::NameMap>(source_, rules_);
    return build(*names_, [&](const Builder& b) {
      const int32_t x = b.embed(b.weight("table", 16, kWidth));
      b.layer(0);
      const int32_t logits = b.linear(x, {b.weight("router", kExperts, kWidth)})[0];
      const tenon_route_attr route = {sizeof route, top_k, 0, 1, 1.0f, 0};
      const auto routed = b.op(TENON_OP_ROUTE, &route, {logits}, {}, {}, 2);
      const tenon_expert_ffn_attr ffn = {sizeof ffn, TENON_ACT_SILU, 0, 0, 0, top_k};
      const int32_t gate = b.stack("gate", kHidden, kWidth, n_expert), up = b.stack("up", kHidden, kWidth, n_expert);
      const int32_t down = b.stack("down", kWidth, kHidden, n_expert);
      const int32_t y = b.op(TENON_OP_EXPERT_FFN, &ffn, {x, routed[0], routed[1]}, {gate, up, down})[0];
      b.logits(b.linear(b.select(y), {b.weight("out", 16, kWidth)})[0]);
    });
  }
  std::string fault(uint32_t top_k = 2, uint32_t n_expert = kExperts) {
    try {
      make(top_k, n_expert);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // Where the experts of gate, up and down lie, unpacked.
  std::vector<tenon_addr> addresses(const graph::Graph& graph, std::vector<uint32_t> layouts = {0, 0, 0}) {
    registry_ = kernels_.registry();
    weights_ = std::make_unique<program::WeightSet>(graph, *names_, registry_, device_.device());
    const graph::Node& node = expert_node(graph);
    for (size_t i = 0; i < 3; ++i)
      weights_->request(node.weight[i], layouts[i], {&packer_.table, &packed_, uint32_t(i)});
    weights_->pack(1, {}, {});
    const tenon_bank* bank = weights_->bank(node.weight, layouts);
    EXPECT_EQ(bank->n_expert, uint32_t(kExperts));
    const auto* begin = reinterpret_cast<const uint64_t*>(bank->address);
    return {begin, begin + 3 * kExperts};
  }
  static const graph::Node& expert_node(const graph::Graph& graph) {
    return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const graph::Node& node) { return node.op == TENON_OP_EXPERT_FFN; });
  }
  tenon_addr at(const std::string& tensor, uint64_t offset = 0) const {
    return reinterpret_cast<tenon_addr>(source_.data(source_.find(tensor)->planes[0])) + offset;
  }

  FakeSource source_;
  FakeDevice device_;
  Kernels kernels_;
  FakeKernel packer_{"packer", "expert_ffn"};
  tenon_node packed_ = {};
  plugin::Registry registry_;
  std::vector<tenon_name_rule> rules_;
  std::unique_ptr<graph::NameMap> names_;
  std::unique_ptr<program::WeightSet> weights_;
};

constexpr uint64_t kExpertBytes = kHidden * kWidth * 4;

TEST_F(ExpertsTest, AStackIsReadExpertByExpert) {
  add_stacks();
  const graph::Graph graph = make();
  const auto& ids = graph.values[size_t(expert_node(graph).in[1])];
  EXPECT_EQ(ids.encoding, uint32_t(TENON_ENC_I32));
  EXPECT_EQ(ids.cols, 2);
  const auto where = addresses(graph);
  for (uint64_t e = 0; e < kExperts; ++e) {
    EXPECT_EQ(where[e], at("gate", e * kExpertBytes));
    EXPECT_EQ(where[2 * kExperts + e], at("down", e * kExpertBytes));
  }
  const tenon_weight gate = weights_->resolved(expert_node(graph).weight[0], 0);
  EXPECT_EQ(gate.n_expert, uint32_t(kExperts));
  EXPECT_EQ(gate.expert_stride, int64_t(kExpertBytes));
  EXPECT_EQ(gate.plane[0], at("gate"));
}

TEST_F(ExpertsTest, GateAndUpMayBeOneTensor) {
  source_.add_stack("both", kExperts, 2 * kHidden, kWidth);
  source_.add_stack("down", kExperts, kWidth, kHidden);
  add_rule("gate", "both", TENON_TRANSFORM_SLICE_ROWS, 0, kHidden, 2 * kHidden);
  add_rule("up", "both", TENON_TRANSFORM_SLICE_ROWS, kHidden, 2 * kHidden, 2 * kHidden);
  const auto where = addresses(make());
  for (uint64_t e = 0; e < kExperts; ++e) {
    EXPECT_EQ(where[e], at("both", 2 * e * kExpertBytes));
    EXPECT_EQ(where[kExperts + e], at("both", (2 * e + 1) * kExpertBytes));
  }
  EXPECT_TRUE(names_->unused(std::vector<std::string>{"table", "router", "out", "gate", "up", "down"}).empty());
}

TEST_F(ExpertsTest, EachExpertMayBeATensor) {
  for (const int e : {2, 0, 1}) {
    for (const char* name : {"gate", "up"}) source_.add("e." + std::to_string(e) + "." + name, kHidden, kWidth);
    source_.add("e." + std::to_string(e) + ".down", kWidth, kHidden);
  }
  add_rule("gate", "e.{e}.gate", TENON_TRANSFORM_STACK_EXPERTS);
  add_rule("up", "e.{e}.up", TENON_TRANSFORM_STACK_EXPERTS);
  add_rule("down", "e.{e}.down", TENON_TRANSFORM_STACK_EXPERTS);
  const graph::Graph graph = make();
  const auto where = addresses(graph);
  for (int e = 0; e < kExperts; ++e) EXPECT_EQ(where[size_t(kExperts + e)], at("e." + std::to_string(e) + ".up"));
  EXPECT_EQ(weights_->resolved(expert_node(graph).weight[0], 0).expert_stride, 0) << "they lie anywhere";
  EXPECT_TRUE(names_->unused(std::vector<std::string>{"table", "router", "out", "gate", "up", "down"}).empty());
}

TEST_F(ExpertsTest, ExpertsArePackedOneByOneAndTheirPagesGivenBack) {
  add_stacks();
  const auto where = addresses(make(), {7, 7, 0});
  EXPECT_EQ(packer_.n_pack_sizes, 2);
  EXPECT_EQ(packer_.n_pack_slices, 2 * int(kExperts));
  EXPECT_EQ(source_.n_dropped, 2 * int(kExperts));
  EXPECT_EQ(where[1] - where[0], uint64_t(kHidden * 64)) << "64 bytes a row, as the fake kernel packs";
  EXPECT_EQ(where[2 * kExperts], at("down"));
  EXPECT_EQ(weights_->packed_bytes(), 2 * kExperts * uint64_t(kHidden * 64));
}

TEST_F(ExpertsTest, FactorsGoIntoTheTable) {
  add_stacks();
  source_.add_factors("up", {1.0f, 0.5f, 3.0f});
  const graph::Graph graph = make();
  addresses(graph);
  const tenon_bank* bank = weights_->bank(expert_node(graph).weight, {0, 0, 0});
  ASSERT_NE(bank->macro, 0u);
  const auto* factor = reinterpret_cast<const float*>(bank->macro);
  EXPECT_EQ(std::vector<float>(factor, factor + 9), (std::vector<float>{1, 1, 1, 1, 0.5f, 3, 1, 1, 1}));
}

// A rank's share: the table keeps all experts' numbers, memory holds those that are here.
TEST_F(ExpertsTest, ARankHasItsOwnExperts) {
  add_stacks();
  source_.add_factors("up", {1.0f, 0.5f, 3.0f});
  graph::Graph graph = make();
  for (const int32_t id : expert_node(graph).weight) graph.weights[size_t(id)].kept_experts = {{0, 1}, {2, 3}};
  for (const uint32_t layout : {0u, 7u}) {
    const auto where = addresses(graph, {layout, layout, 0});
    const tenon_weight gate = weights_->resolved(expert_node(graph).weight[0], layout);
    EXPECT_TRUE(weights_->is_partial(expert_node(graph).weight[0]));
    EXPECT_EQ(gate.n_expert, uint32_t(kExperts)) << "ids are those of all experts";
    EXPECT_EQ(gate.expert_stride, 0) << "only the table says where they lie";
    EXPECT_EQ(gate.plane[0], where[0]);
    for (size_t which = 0; which < 3; ++which) {
      EXPECT_NE(where[which * kExperts], 0u);
      EXPECT_EQ(where[which * kExperts + 1], 0u);
      EXPECT_NE(where[which * kExperts + 2], 0u);
    }
    EXPECT_EQ(where[2 * kExperts + 2], at("down", 2 * kExpertBytes));
    EXPECT_EQ(where[2] - where[0], layout ? kHidden * 64 : 2 * kExpertBytes) << "packed, one lies behind the other";
    EXPECT_EQ(weights_->packed_bytes(), layout ? 2 * 2 * uint64_t(kHidden * 64) : 0);
    EXPECT_EQ(weights_->bytes_of(expert_node(graph).weight[0], 0), 2 * kExpertBytes);
    const auto* factor = reinterpret_cast<const float*>(weights_->bank(expert_node(graph).weight, {layout, layout, 0})->macro);
    EXPECT_EQ(std::vector<float>(factor, factor + 9), (std::vector<float>{1, 1, 1, 1, 1, 3, 1, 1, 1}));
  }
  EXPECT_EQ(packer_.n_pack_slices, 2 * 2);
  EXPECT_EQ(source_.n_dropped, 2 * 2) << "the others' pages are never touched";
}

TEST_F(ExpertsTest, ARankHasItsOwnExpertsOfTensorsAndOfFusedStacks) {
  for (const int e : {2, 0, 1}) {
    source_.add("e." + std::to_string(e) + ".gate", kHidden, kWidth);
    source_.add("e." + std::to_string(e) + ".down", kWidth, kHidden);
  }
  source_.add_stack("both", kExperts, 2 * kHidden, kWidth);
  add_rule("gate", "e.{e}.gate", TENON_TRANSFORM_STACK_EXPERTS);
  add_rule("up", "both", TENON_TRANSFORM_SLICE_ROWS, kHidden, 2 * kHidden, 2 * kHidden);
  add_rule("down", "e.{e}.down", TENON_TRANSFORM_STACK_EXPERTS);
  graph::Graph graph = make();
  for (const int32_t id : expert_node(graph).weight) graph.weights[size_t(id)].kept_experts = {{1, 3}};
  EXPECT_EQ(addresses(graph), (std::vector<tenon_addr>{0, at("e.1.gate"), at("e.2.gate"),  //
                                                       0, at("both", 3 * kExpertBytes), at("both", 5 * kExpertBytes),
                                                       0, at("e.1.down"), at("e.2.down")}));
  for (const int32_t id : expert_node(graph).weight) EXPECT_EQ(weights_->bytes_of(id, 0), 2 * kExpertBytes);
}

TEST_F(ExpertsTest, AFactorOfAMatrixFollowsItsProduct) {
  add_stacks();
  source_.add_factors("router", {0.25f});
  const graph::Graph graph = make();
  ASSERT_EQ(graph.nodes[2].op, uint32_t(TENON_OP_SCALE));
  EXPECT_EQ(graph.nodes[2].attr_as<tenon_scale_attr>().factor, 0.25f);
  EXPECT_EQ(graph.nodes[3].in[0], graph.nodes[2].out[0]);
}

TEST_F(ExpertsTest, WhatDoesNotFitIsNamed) {
  add_stacks();
  expect_in(fault(4), {"route", "4 of 3 experts"});
  expect_in(fault(0), {"route", "0 of 3 experts"});
  expect_in(fault(2, 5), {"tensor gate: shape [8, 4, 3]", "expects [8, 4, 5]", "tensor down"});
  expect_in(fault(2, 1u << 31), {"gate", "2147483648 experts", "at most 65536"});
}

TEST_F(ExpertsTest, AStackOfTensorsIsCompleteAndAlike) {
  source_.add_stack("up", kExperts, kHidden, kWidth), source_.add_stack("down", kExperts, kWidth, kHidden);
  add_rule("gate", "g.{e}", TENON_TRANSFORM_STACK_EXPERTS);
  expect_in(fault(), {"1 tensors are missing: gate"});
  source_.add("g.0", kHidden, kWidth), source_.add("g.2", kHidden, kWidth);
  expect_in(fault(), {"gate", "2 of 3 experts", "number 1 is missing"});
  source_.add("g.1", kHidden, kWidth + 1), source_.add("g.9", kHidden, kWidth);
  expect_in(fault(), {"tensor g.1: shape [9, 4]", "expects [8, 4]", "tensor g.9", "declares 3 experts"});
}

TEST_F(ExpertsTest, CutRowsMustBeThere) {
  source_.add_stack("both", kExperts, kHidden, kWidth);
  source_.add_stack("down", kExperts, kWidth, kHidden);
  add_rule("gate", "both", TENON_TRANSFORM_SLICE_ROWS, 0, kHidden, 2 * kHidden);
  add_rule("up", "both", TENON_TRANSFORM_SLICE_ROWS, kHidden, 2 * kHidden, 2 * kHidden);
  expect_in(fault(), {"tensor both: 4 rows", "expects 8", "takes 0 to 3", "takes 4 to 7"});
}

}  // namespace
}  // namespace tenon::core_test
