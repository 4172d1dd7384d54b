// gemma4moe_test.cpp: gemma4 with experts beside the dense part.
#include <gtest/gtest.h>

#include "fake_builder.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

class Gemma4Moe : public ::testing::Test {
 protected:
  tenon_meta meta = tenon_meta::load("gemma4moe.gguf.txt");
  static const tenon_architecture* served() { return architecture(tenon_plugin_entry(), "gemma4"); }
  FakeBuilder build() {
    Configured model(served(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    if (model.status == TENON_OK) {
      EXPECT_EQ(served()->build(model.model, {"main", 4}, builder.table()), TENON_OK) << take_message();
    }
    return builder;
  }
  std::string refusal() {
    Configured model(served(), meta);
    EXPECT_EQ(model.status, TENON_CORRUPT) << model.message;
    return model.message;
  }
};

TEST_F(Gemma4Moe, DenseAndExpertsReadTheStreamUnderTheirOwnNorms) {
  const FakeBuilder g = build();
  const std::string ops = g.ops(0);
  EXPECT_NE(ops.find("add norm linear2 glu linear norm norm scale linear route norm expert norm add norm add mul"),
            std::string::npos)
      << ops;
  const int32_t stream = g.user("blk.0.ffn_norm.weight")->in[0];
  EXPECT_EQ(g.user("blk.0.pre_ffw_norm_2.weight")->in[0], stream);
  EXPECT_EQ(g.user("blk.0.ffn_gate_inp.scale")->in[0], stream);
  const Recorded* sum = g.producer(g.user("blk.0.post_ffw_norm.weight")->in[0]);
  EXPECT_EQ(g.producer(sum->in[0])->weights.at(0), "blk.0.post_ffw_norm_1.weight");
  EXPECT_EQ(g.producer(sum->in[1])->weights.at(0), "blk.0.post_ffw_norm_2.weight");
}

TEST_F(Gemma4Moe, RoutesBySoftmaxAndScalesEachExpert) {
  const FakeBuilder g = build();
  const Recorded* scale = g.user("blk.3.ffn_down_exps.scale");
  ASSERT_EQ(scale->name, "route");
  const auto route = scale->as<tenon_route_attr>();
  EXPECT_EQ(route.top_k, 2u);
  EXPECT_EQ(route.gating, 0u);
  EXPECT_EQ(route.normalize, 1u);
  const Recorded* logits = g.producer(scale->in[0]);
  EXPECT_EQ(logits->weights.at(0), "blk.3.ffn_gate_inp.weight");
  EXPECT_EQ(g.producer(logits->in[0])->as<tenon_scale_attr>().factor, 1.0f / 16);
  EXPECT_EQ(g.user("blk.3.ffn_up_exps.weight")->as<tenon_expert_ffn_attr>().activation, uint32_t{TENON_ACT_GELU_TANH});
  EXPECT_EQ(g.taps.count("route.3"), 1u);
}

TEST_F(Gemma4Moe, ReadsAHuggingFaceFolderToTheSameGraph) {
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("gemma4moe.hf.txt");
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << hf.nodes[i].name;
}

TEST_F(Gemma4Moe, GateAndUpMayBeOneTensorOrTwo) {
  const auto sources = [&] {
    Configured model(served(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    const tenon_name_rule* rules = nullptr;
    uint32_t n = 0, slices = 0;
    EXPECT_EQ(served()->names(model.model, {"gguf", 4}, &rules, &n), TENON_OK);
    for (uint32_t i = 0; i < n; ++i) slices += rules[i].transform == TENON_TRANSFORM_SLICE_ROWS;
    return slices;
  };
  EXPECT_EQ(sources(), 2u);
  for (int i = 0; i < 4; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    meta.tensors.erase(block + "ffn_gate_up_exps.weight");
    for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) meta.tensors[block + name] = {256, 96, 8};
  }
  EXPECT_EQ(sources(), 0u);
  meta.tensors["blk.2.ffn_up_exps.weight"] = {256, 96, 4};
  EXPECT_EQ(refusal(), "tensor blk.2.ffn_up_exps.weight: shape [256, 96, 4], but gemma4 expects [256, 96, 8]");
}

TEST_F(Gemma4Moe, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    int64_t value;
    const char* message;
  } cases[] = {{"gemma4.expert_used_count", 0, "expert_used_count: expected an integer from 1 to 8, found 0"},
               {"gemma4.expert_used_count", 9, "expert_used_count: expected an integer from 1 to 8, found 9"},
               {"gemma4.expert_feed_forward_length", 0, "expert_feed_forward_length: expected an integer from 1"},
               {"gemma4.expert_count", 1 << 20, "expert_count: expected an integer from 0 to 65536"}};
  for (const auto& c : cases) {
    meta = tenon_meta::load("gemma4moe.gguf.txt");
    meta.set(c.key, c.value);
    const std::string message = refusal();
    EXPECT_NE(message.find(c.message), std::string::npos) << message;
  }
  meta = tenon_meta::load("gemma4moe.gguf.txt");
  meta.tensors.erase("blk.1.ffn_down_exps.scale");
  EXPECT_EQ(refusal(), "tensor blk.1.ffn_down_exps.scale: missing, but gemma4 expects it with shape [8]");
}

}  // namespace
}  // namespace tenon::test
