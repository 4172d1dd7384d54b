// qwen35moe_test.cpp: qwen35 with experts: graph, names in every form that files have, and what bad numbers are told.
#include <gtest/gtest.h>

#include "fake_builder.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

const tenon_architecture* qwen35moe() {
  static const tenon_architecture* found = architecture(tenon_plugin_entry(), "qwen35moe");
  return found;
}
std::string text_of(tenon_str s) { return {s.data, static_cast<size_t>(s.size)}; }

// The dense model's list with experts in place of its feed-forward part.
tenon_meta with_experts() {
  tenon_meta meta = tenon_meta::load("qwen35.gguf.txt");
  std::map<std::string, tenon_meta::Entry, std::less<>> values;
  for (auto& [key, entry] : meta.values)
    values[key.substr(0, 7) == "qwen35." ? "qwen35moe" + key.substr(6) : key] = entry;
  meta.values = std::move(values);
  meta.values.erase("qwen35moe.feed_forward_length");
  meta.set_string("general.architecture", "qwen35moe");
  meta.set("qwen35moe.expert_count", 8), meta.set("qwen35moe.expert_used_count", 2);
  meta.set("qwen35moe.expert_feed_forward_length", 96);
  meta.set("qwen35moe.expert_shared_feed_forward_length", 64);
  for (auto it = meta.tensors.begin(); it != meta.tensors.end();)
    it = it->first.find(".ffn_") != std::string::npos ? meta.tensors.erase(it) : std::next(it);
  for (int i = 0; i < 8; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".ffn_";
    meta.tensors[b + "gate_inp.weight"] = {256, 8}, meta.tensors[b + "gate_inp_shexp.weight"] = {256};
    for (const char* name : {"gate", "up"}) {
      meta.tensors[b + name + "_exps.weight"] = {256, 96, 8};
      meta.tensors[b + name + "_shexp.weight"] = {256, 64};
    }
    meta.tensors[b + "down_exps.weight"] = {96, 256, 8}, meta.tensors[b + "down_shexp.weight"] = {64, 256};
  }
  return meta;
}

class Qwen35Moe : public ::testing::Test {
 protected:
  tenon_meta meta = with_experts();

  std::string refusal() {
    Configured model(qwen35moe(), meta);
    EXPECT_NE(model.status, TENON_OK);
    return model.message;
  }
  std::map<std::string, tenon_name_rule> rules(const Configured& model) {
    const tenon_name_rule* found = nullptr;
    uint32_t n = 0;
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    EXPECT_EQ(qwen35moe()->names(model.model, {meta.scheme.data(), meta.scheme.size()}, &found, &n), TENON_OK);
    std::map<std::string, tenon_name_rule> out;
    for (uint32_t i = 0; i < n; ++i) out.try_emplace(text_of(found[i].canonical), found[i]);
    return out;
  }
};

TEST_F(Qwen35Moe, RoutesRowsBesideASharedExpert) {
  Configured model(qwen35moe(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  FakeBuilder g(&meta);
  ASSERT_EQ(qwen35moe()->build(model.model, {"main", 4}, g.table()), TENON_OK) << take_message();
  EXPECT_NE(g.ops(0).find(" norm linear route expert linear2 glu linear linear gate add add"), std::string::npos)
      << g.ops(0);
  const Recorded* experts = g.user("blk.3.ffn_up_exps.weight");
  EXPECT_EQ(experts->weights, (std::vector<std::string>{"blk.3.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight",
                                                        "blk.3.ffn_down_exps.weight"}));
  const Recorded* route = g.producer(experts->in[1]);
  const auto a = route->as<tenon_route_attr>();
  EXPECT_EQ(a.top_k, 2u);
  EXPECT_EQ(a.gating, 0u);
  EXPECT_EQ(a.normalize, 1u);
  EXPECT_EQ(a.scale, 1.0f);
  const Recorded* router = g.producer(route->in[0]);
  EXPECT_EQ(router->as<tenon_linear_attr>().flags, uint32_t{TENON_WEIGHT_ROUTER});
  EXPECT_EQ(g.taps.count("route.3"), 1u);
  const Recorded* share = g.user("blk.3.ffn_gate_inp_shexp.weight");
  for (const Recorded& node : g.nodes)
    if (node.op == TENON_OP_GATE && node.in[1] == share->out[0]) {
      EXPECT_EQ(node.as<tenon_gate_attr>().group, 256u) << "one number a row";
    }
  EXPECT_EQ(g.find("blk.3.ffn_down_exps.weight")->decl.n_expert, 8u);
}

TEST_F(Qwen35Moe, ReadsGateAndUpFromOneTensor) {
  for (int i = 0; i < 8; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".ffn_";
    meta.tensors.erase(b + "gate_exps.weight"), meta.tensors.erase(b + "up_exps.weight");
    meta.tensors[b + "gate_up_exps.weight"] = {256, 192, 8};
  }
  const Configured model(qwen35moe(), meta);
  const auto found = rules(model);
  const tenon_name_rule& up = found.at("blk.{i}.ffn_up_exps.weight");
  EXPECT_EQ(text_of(up.source), "blk.{i}.ffn_gate_up_exps.weight");
  EXPECT_EQ(up.transform, uint32_t{TENON_TRANSFORM_SLICE_ROWS});
  EXPECT_EQ(up.a, 96);
  EXPECT_EQ(up.b, 192);
  EXPECT_EQ(up.axis, 192u);
}

TEST_F(Qwen35Moe, Qwen3NextKeepsBetaAndAlphaOfAKeyHeadTogether) {
  tenon_meta next;
  next.scheme = meta.scheme;
  for (const auto& [key, entry] : meta.values)
    next.values[key.substr(0, 10) == "qwen35moe." ? "qwen3next" + key.substr(9) : key] = entry;
  next.set_string("general.architecture", "qwen3next");
  next.tensors = meta.tensors;
  for (int i = 0; i < 8; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    if (next.tensors.erase(b + "ssm_beta.weight") + next.tensors.erase(b + "ssm_alpha.weight"))
      next.tensors[b + "ssm_ba.weight"] = {256, 8};
  }
  const tenon_architecture* architecture = test::architecture(tenon_plugin_entry(), "qwen3next");
  Configured model(architecture, next);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  FakeBuilder g(&next);
  ASSERT_EQ(architecture->build(model.model, {"main", 4}, g.table()), TENON_OK) << take_message();
  const Recorded* rule = g.user("blk.0.ssm_a");
  EXPECT_EQ(rule->as<tenon_gated_delta_rule_attr>().head_map, uint32_t{TENON_HEAD_MAP_DIV});
  const RecordedValue &beta = g.values[size_t(rule->in[3])], &alpha = g.values[size_t(rule->in[4])];
  for (const RecordedValue* value : {&beta, &alpha}) {
    EXPECT_EQ(value->base, g.user("blk.0.ssm_ba.weight")->out[2]);
    EXPECT_EQ(value->cols, 4);
    EXPECT_EQ(value->groups, 2) << "key heads";
    EXPECT_EQ(value->group_step, 4);
  }
  EXPECT_EQ(beta.col0, 0);
  EXPECT_EQ(alpha.col0, 2);
}

class Qwen35MoeHf : public Qwen35Moe {
 protected:
  Qwen35MoeHf() {
    meta = tenon_meta::load("qwen35.hf.txt");
    meta.set_string("model_type", "qwen3_5_moe");
    meta.values.erase("text_config.model_type"), meta.values.erase("text_config.intermediate_size");
    meta.set("text_config.num_experts", 8), meta.set("text_config.num_experts_per_tok", 2);
    meta.set("text_config.moe_intermediate_size", 96), meta.set("text_config.shared_expert_intermediate_size", 64);
    for (auto it = meta.tensors.begin(); it != meta.tensors.end();)
      it = it->first.find(".mlp.") != std::string::npos ? meta.tensors.erase(it) : std::next(it);
    for (int i = 0; i < 8; ++i) {
      meta.tensors[mlp(i) + "gate.weight"] = {256, 8}, meta.tensors[mlp(i) + "shared_expert_gate.weight"] = {256, 1};
      meta.tensors[mlp(i) + "shared_expert.gate_proj.weight"] = {256, 64};
      meta.tensors[mlp(i) + "shared_expert.up_proj.weight"] = {256, 64};
      meta.tensors[mlp(i) + "shared_expert.down_proj.weight"] = {64, 256};
    }
  }
  static std::string mlp(int i) { return "model.language_model.layers." + std::to_string(i) + ".mlp."; }
};

TEST_F(Qwen35MoeHf, ReadsFusedExperts) {
  for (int i = 0; i < 8; ++i) {
    meta.tensors[mlp(i) + "experts.gate_up_proj"] = {256, 192, 8};
    meta.tensors[mlp(i) + "experts.down_proj"] = {96, 256, 8};
  }
  const Configured model(qwen35moe(), meta);
  const auto found = rules(model);
  EXPECT_EQ(found.at("blk.{i}.ffn_gate_exps.weight").transform, uint32_t{TENON_TRANSFORM_SLICE_ROWS});
  EXPECT_EQ(found.at("blk.{i}.ffn_gate_exps.weight").b, 96);
  EXPECT_EQ(text_of(found.at("blk.{i}.ffn_down_exps.weight").source),
            "model.language_model.layers.{i}.mlp.experts.down_proj");
}

TEST_F(Qwen35MoeHf, ReadsOneTensorAnExpert) {
  for (int i = 0; i < 8; ++i)
    for (int e = 0; e < 8; ++e) {
      const std::string expert = mlp(i) + "experts." + std::to_string(e) + ".";
      for (const char* name : {"gate_proj.weight", "up_proj.weight"}) meta.tensors[expert + name] = {256, 96};
      meta.tensors[expert + "down_proj.weight"] = {96, 256};
    }
  const Configured model(qwen35moe(), meta);
  const auto found = rules(model);
  const tenon_name_rule& down = found.at("blk.{i}.ffn_down_exps.weight");
  EXPECT_EQ(down.transform, uint32_t{TENON_TRANSFORM_STACK_EXPERTS});
  EXPECT_EQ(text_of(down.source), "model.language_model.layers.{i}.mlp.experts.{e}.down_proj.weight");
}

TEST_F(Qwen35Moe, RefusesBadNumbersByKey) {
  const struct {
    const char* key;
    int64_t value;
    const char* message;
  } cases[] = {
      {"qwen35moe.expert_count", 0, "qwen35moe.expert_count: expected an integer from 1 to 65536, found 0"},
      {"qwen35moe.expert_count", int64_t{1} << 31,
       "qwen35moe.expert_count: expected an integer from 1 to 65536, found 2147483648"},
      {"qwen35moe.expert_used_count", 0, "qwen35moe.expert_used_count: expected an integer from 1 to 8, found 0"},
      {"qwen35moe.expert_used_count", 9, "qwen35moe.expert_used_count: expected an integer from 1 to 8, found 9"},
      {"qwen35moe.expert_feed_forward_length", 0,
       "qwen35moe.expert_feed_forward_length: expected an integer from 1 to 16777216, found 0"},
      {"qwen35moe.expert_feed_forward_length", 97,
       "tensor blk.0.ffn_gate_exps.weight: shape [256, 96, 8], but qwen35moe expects [256, 97, 8]"},
      {"qwen35moe.expert_count", 16,
       "tensor blk.0.ffn_gate_inp.weight: shape [256, 8], but qwen35moe expects [256, 16]"},
  };
  for (const auto& c : cases) {
    meta = with_experts();
    meta.set(c.key, c.value);
    EXPECT_EQ(refusal(), c.message);
  }
  meta = with_experts();
  meta.tensors["blk.2.ffn_down_exps.weight"] = {96, 256, 7};
  EXPECT_EQ(refusal(), "tensor blk.2.ffn_down_exps.weight: shape [96, 256, 7], but qwen35moe expects [96, 256, 8]");
  meta.tensors.erase("blk.2.ffn_down_exps.weight");
  EXPECT_EQ(refusal(), "tensor blk.2.ffn_down_exps.weight: missing, but qwen35moe expects it with shape [96, 256, 8]");
}

}  // namespace
}  // namespace tenon::test
