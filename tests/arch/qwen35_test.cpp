// qwen35_test.cpp: dense qwen35 from its metadata to its graph, and what bad metadata is told.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_builder.hpp"
#include "written.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

const tenon_architecture* qwen35() {
  static const tenon_architecture* found = architecture(tenon_plugin_entry(), "qwen35");
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Qwen35 : public ::testing::Test {
 protected:
  tenon_meta meta = tenon_meta::load("qwen35.gguf.txt");

  FakeBuilder build(const std::string& entry = "main") {
    Configured model(qwen35(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    builder.hidden_width = 256;
    builder.target_weights = {
        {"token_embd.weight", {1024, 256}}, {"output.weight", {1024, 256}}, {"output_norm.weight", {1, 256}}};
    if (model.status == TENON_OK) {
      EXPECT_EQ(qwen35()->build(model.model, {entry.data(), entry.size()}, builder.table()), TENON_OK)
          << take_message();
    }
    return builder;
  }
  std::vector<std::string> entries() {
    Configured model(qwen35(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    tenon_limits out = {};
    std::vector<std::string> names;
    if (model.status == TENON_OK && qwen35()->limits(model.model, &out) == TENON_OK)
      for (uint32_t i = 0; i < out.n_entry; ++i) names.push_back(text_of(out.entries[i]));
    return names;
  }
  void drop_blocks(bool drafts) {
    std::erase_if(meta.tensors, [&](const auto& entry) {
      return entry.first.substr(0, 4) == "blk." && (entry.first.substr(0, 6) == "blk.8.") == drafts;
    });
  }
  std::string refusal() {
    Configured model(qwen35(), meta);
    EXPECT_NE(model.status, TENON_OK);
    return model.message;
  }
  tenon_limits limits() {
    Configured model(qwen35(), meta);
    tenon_limits out = {};
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    if (model.status == TENON_OK) {
      EXPECT_EQ(qwen35()->limits(model.model, &out), TENON_OK);
    }
    return out;
  }
};

constexpr const char* kFfn = " add norm linear2 glu linear add";

TEST_F(Qwen35, DoesNotClaimTheMixtureOfExperts) {
  meta.set_string("general.architecture", "qwen35moe");
  uint32_t score = 100;
  ASSERT_EQ(qwen35()->score(qwen35()->self, &meta, &score), TENON_OK);
  EXPECT_EQ(score, 0u);
}

TEST_F(Qwen35, BuildsDeltaNetAndAttentionLayersInOrder) {
  const FakeBuilder g = build();
  const std::string delta = std::string("norm linear4 conv norm norm delta norm gate linear") + kFfn;
  const std::string full = std::string("norm linear3 norm norm rope rope kv_write attention gate linear") + kFfn;
  EXPECT_EQ(g.ops(-1), "embed");
  for (int i = 0; i < 7; ++i) EXPECT_EQ(g.ops(i), i == 3 ? full : delta) << "layer " << i;
  EXPECT_EQ(g.ops(7), full + " select norm linear");
  EXPECT_EQ(g.values[size_t(g.logits_value)].cols, 1024);
  EXPECT_EQ(g.nodes.at(0).as<tenon_embed_attr>().scale, 1.0f);
}

TEST_F(Qwen35, MainUsesNothingOfTheDraftBlock) {
  const FakeBuilder g = build();
  for (const auto& weight : g.weights) EXPECT_FALSE(contains(weight.name, "blk.8.")) << weight.name;
  EXPECT_EQ(g.taps.at("draft.hidden"), g.taps.at("hidden.8"));  // the rows behind the last norm
  EXPECT_EQ(limits().n_layer, 8u);
  EXPECT_EQ(limits().n_draft_unused, 0u);
  EXPECT_EQ(limits().n_draft_absent, 0u);
  EXPECT_EQ(entries(), (std::vector<std::string>{"main", "draft.0"}));
}

TEST_F(Qwen35, TheDraftJoinsATokenAndAHiddenRowAndIsOneAttentionLayer) {
  const FakeBuilder g = build("draft.0");
  EXPECT_EQ(g.ops(-1), "embed norm norm concat linear");
  EXPECT_EQ(g.ops(0), std::string("norm linear3 norm norm rope rope kv_write attention gate linear") + kFfn +
                          " select norm linear");
  EXPECT_EQ(g.nodes.at(0).weights, (std::vector<std::string>{"target:token_embd.weight"}));
  const Recorded* joined = g.producer(g.user("blk.8.nextn.eh_proj.weight")->in[0]);
  EXPECT_EQ(g.producer(joined->in[0])->weights, (std::vector<std::string>{"blk.8.nextn.enorm.weight"}));  // token first
  EXPECT_EQ(g.producer(joined->in[1])->weights, (std::vector<std::string>{"blk.8.nextn.hnorm.weight"}));
  EXPECT_EQ(g.user("blk.8.nextn.hnorm.weight")->in[0] < 0, false);
  EXPECT_EQ(g.producer(g.user("blk.8.nextn.hnorm.weight")->in[0]), nullptr);  // an input
  const Recorded* head = g.producer(g.logits_value);
  EXPECT_EQ(head->weights, (std::vector<std::string>{"target:output.weight"}));
  EXPECT_EQ(g.taps.at("draft.hidden"), head->in[0]);
  EXPECT_EQ(g.user("blk.8.nextn.shared_head_norm.weight")->out[0], head->in[0]);
  EXPECT_EQ(g.id_map, "");
}

TEST_F(Qwen35, ADraftsOwnHeadComesFirstThenItsFilesThenTheModels) {
  drop_blocks(false);
  meta.tensors["output.weight"] = {256, 1024};
  EXPECT_EQ(build("draft.0").producer(build("draft.0").logits_value)->weights.at(0), "output.weight");
  meta.tensors["blk.8.nextn.shared_head_head.weight"] = {256, 100};
  meta.tensors["output.weight"] = {256, 100};
  meta.tensors["d2t"] = {100};
  const FakeBuilder g = build("draft.0");
  EXPECT_EQ(g.producer(g.logits_value)->weights.at(0), "blk.8.nextn.shared_head_head.weight");
  EXPECT_EQ(g.values[size_t(g.logits_value)].cols, 100);
  EXPECT_EQ(g.id_map, "d2t");
  meta.tensors.erase("blk.8.nextn.shared_head_norm.weight");
  EXPECT_NE(build("draft.0").user("output_norm.weight"), nullptr);
}

TEST_F(Qwen35, ASplitExportHasTheTrunkAndTheDraftInFilesOfTheirOwn) {
  const tenon_meta whole = meta;
  drop_blocks(true);
  EXPECT_EQ(limits().n_draft_absent, 1u);
  EXPECT_EQ(entries(), (std::vector<std::string>{"main"}));
  meta = whole;
  drop_blocks(false);
  EXPECT_EQ(limits().n_draft_absent, 0u);
  EXPECT_EQ(entries(), (std::vector<std::string>{"draft.0"}));
  EXPECT_EQ(build("draft.0").ops(-1), "embed norm norm concat linear");
}

TEST_F(Qwen35, OfSeveralDraftBlocksTheFirstIsServed) {
  meta.set("qwen35.block_count", 10), meta.set("qwen35.nextn_predict_layers", 2);
  meta.values.erase("qwen35.attention.recurrent_layers");
  EXPECT_EQ(limits().n_draft_unused, 1u);
  EXPECT_EQ(entries(), (std::vector<std::string>{"main", "draft.0"}));
}

TEST_F(Qwen35, CutsQueryAndGateOutOfEachHead) {
  const FakeBuilder g = build();
  const Recorded* q = g.user("blk.3.attn_q.weight");
  ASSERT_EQ(q->weights,
            (std::vector<std::string>{"blk.3.attn_q.weight", "blk.3.attn_k.weight", "blk.3.attn_v.weight"}));
  const RecordedValue& query = g.values[size_t(g.user("blk.3.attn_q_norm.weight")->in[0])];
  EXPECT_EQ(query.base, q->out[0]);
  EXPECT_EQ(query.col0, 0);
  EXPECT_EQ(query.cols, 512);
  EXPECT_EQ(query.groups, 2);
  EXPECT_EQ(query.group_step, 512);
  const Recorded* out = g.user("blk.3.attn_output.weight");
  const Recorded* gate = g.producer(out->in[0]);
  ASSERT_EQ(gate->op, uint32_t{TENON_OP_GATE});
  EXPECT_EQ(gate->as<tenon_gate_attr>().activation, uint32_t{TENON_ACT_SIGMOID});
  EXPECT_EQ(gate->as<tenon_gate_attr>().group, 1u);
  EXPECT_EQ(g.producer(gate->in[0])->op, uint32_t{TENON_OP_ATTENTION});
  const RecordedValue& sigmoid = g.values[size_t(gate->in[1])];
  EXPECT_EQ(sigmoid.base, q->out[0]);
  EXPECT_EQ(sigmoid.col0, 256);
  EXPECT_EQ(sigmoid.groups, 2);
  EXPECT_EQ(sigmoid.group_step, 512);
}

TEST_F(Qwen35, RotatesAQuarterOfEachHead) {
  const FakeBuilder g = build();
  const Recorded* rope = g.user("rope");
  const auto a = rope->as<tenon_rope_attr>();
  EXPECT_EQ(a.head_dim, 256u);
  EXPECT_EQ(a.n_rot, 64u);
  EXPECT_EQ(a.sections[0], 11u);
  EXPECT_EQ(a.sections[2], 10u);
  const auto& inv = g.find("rope")->values;
  ASSERT_EQ(inv.size(), 32u);
  EXPECT_EQ(inv[16], 1.0f / std::pow(1e7f, 0.5f));
  for (const Recorded& node : g.nodes)
    if (node.op == TENON_OP_ATTENTION) {
      EXPECT_EQ(node.as<tenon_attention_attr>().scale, 0.0625f);
    }
}

TEST_F(Qwen35, DeltaNetReadsTheConvolutionInPlace) {
  const FakeBuilder g = build();
  const Recorded* linear = g.user("blk.0.attn_qkv.weight");
  EXPECT_EQ(linear->weights, (std::vector<std::string>{"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight",
                                                       "blk.0.ssm_beta.weight", "blk.0.ssm_alpha.weight"}));
  const Recorded* conv = g.user("blk.0.ssm_conv1d.weight");
  EXPECT_EQ(conv->in[0], linear->out[0]);
  EXPECT_EQ(conv->as<tenon_short_conv_attr>().taps, 4u);
  EXPECT_EQ(conv->as<tenon_short_conv_attr>().activation, uint32_t{TENON_ACT_SILU});

  const Recorded* delta = g.user("blk.0.ssm_a");
  ASSERT_EQ(delta->weights, (std::vector<std::string>{"blk.0.ssm_a", "blk.0.ssm_dt.bias"}));
  EXPECT_EQ(delta->in[3], linear->out[2]);  // beta before alpha
  EXPECT_EQ(delta->in[4], linear->out[3]);
  for (int i = 0; i < 2; ++i) {
    const Recorded* norm = g.producer(delta->in[size_t(i)]);
    EXPECT_EQ(norm->as<tenon_norm_attr>().kind, uint32_t{TENON_NORM_L2});
    EXPECT_EQ(norm->as<tenon_norm_attr>().group, 128u);
    const RecordedValue& columns = g.values[size_t(norm->in[0])];
    EXPECT_EQ(columns.base, conv->out[0]);
    EXPECT_EQ(columns.col0, i * 256);
    EXPECT_EQ(columns.cols, 256);
  }
  const RecordedValue& v = g.values[size_t(delta->in[2])];
  EXPECT_EQ(v.base, conv->out[0]);
  EXPECT_EQ(v.col0, 512);
  EXPECT_EQ(v.cols, 512);

  const auto a = delta->as<tenon_gated_delta_rule_attr>();
  EXPECT_EQ(a.key_heads, 2u);
  EXPECT_EQ(a.value_heads, 4u);
  EXPECT_EQ(a.head_map, uint32_t{TENON_HEAD_MAP_MOD});
  EXPECT_FLOAT_EQ(a.scale, 1.0f / std::sqrt(128.0f));
  const auto& store = g.stores.at(size_t(delta->stores.at(0)));
  EXPECT_EQ(store.kind, uint32_t{TENON_STORE_RECURRENT});
  EXPECT_EQ(store.tape_cols, 2 * 128 + 4 * 128 + 8);
}

TEST_F(Qwen35, NormsTheDeltaNetsOutputByHeadAndThenGatesIt) {
  const FakeBuilder g = build();
  const Recorded* norm = g.user("blk.0.ssm_norm.weight");
  EXPECT_EQ(norm->as<tenon_norm_attr>().group, 128u);
  const Recorded* gate = g.producer(g.user("blk.0.ssm_out.weight")->in[0]);
  EXPECT_EQ(gate->as<tenon_gate_attr>().activation, uint32_t{TENON_ACT_SILU});
  EXPECT_EQ(gate->in[0], norm->out[0]);
  EXPECT_EQ(gate->in[1], g.user("blk.0.attn_gate.weight")->out[1]);
}

TEST_F(Qwen35, ValueHeadsAreCutWithTheirKeyHead) {
  const FakeBuilder g = build();
  const auto& segments = g.find("blk.0.attn_qkv.weight")->segments;
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].rows, 256);
  EXPECT_EQ(segments[2].rows, 512);
  EXPECT_EQ(segments[2].unit, 128u);
  EXPECT_EQ(segments[2].period, 2u);
  EXPECT_EQ(g.find("blk.3.attn_q.weight")->segments.at(0).unit, 512u);  // query and gate stay together
}

TEST_F(Qwen35, LayerKindsComeFromTheListOrElseTheInterval) {
  meta.values.erase("qwen35.attention.recurrent_layers");
  const std::string by_interval = build().ops(3);
  EXPECT_TRUE(contains(by_interval, "attention")) << by_interval;
  meta.set("qwen35.full_attention_interval", 2);
  EXPECT_EQ(refusal().substr(0, 86),
            "12 tensors are missing, which qwen35 expects: blk.1.attn_q.weight [256, 1024], blk.1.a");
  meta.set_array("qwen35.attention.recurrent_layers", TENON_VALUE_BOOL, {1, 1, 1});
  EXPECT_EQ(refusal(), "qwen35.attention.recurrent_layers: expected 9 entries (one a block), found 3");
}

TEST_F(Qwen35, HeadCountsMayBeListsWithZerosForDeltaNetLayers) {
  meta.set_array("qwen35.attention.head_count_kv", TENON_VALUE_I32, {0, 0, 0, 1, 0, 0, 0, 1, 1});
  EXPECT_TRUE(contains(build().ops(3), "attention"));
  meta.set_array("qwen35.attention.head_count_kv", TENON_VALUE_I32, {0, 0, 0, 0, 0, 0, 0, 1, 1});
  EXPECT_EQ(refusal(), "qwen35.attention.head_count_kv: expected 1 or more in attention layer 3, found 0");
}

TEST_F(Qwen35, NeverSamplesTokensThatStandForNoText) {
  std::vector<double> types(1024, 1);
  types[7] = types[1023] = 5;
  meta.set_array("tokenizer.ggml.token_type", TENON_VALUE_I32, types);
  EXPECT_EQ(build().never, (std::vector<int32_t>{7, 1023}));
}

TEST_F(Qwen35, ReadsAHuggingFaceFolderWithTheOtherHeadOrder) {
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("qwen35.hf.txt");
  uint32_t score = 0;
  ASSERT_EQ(qwen35()->score(qwen35()->self, &meta, &score), TENON_OK);
  EXPECT_EQ(score, 100u);
  EXPECT_EQ(limits().n_layer, 8u);
  EXPECT_EQ(entries(), (std::vector<std::string>{"main", "draft.0"}));
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) {
    EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
    if (hf.nodes[i].op == TENON_OP_GATED_DELTA_RULE) {
      auto a = hf.nodes[i].as<tenon_gated_delta_rule_attr>();
      EXPECT_EQ(a.head_map, uint32_t{TENON_HEAD_MAP_DIV});
    } else {
      EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << " " << hf.nodes[i].name;
    }
  }
  EXPECT_EQ(hf.find("blk.0.attn_qkv.weight")->segments.at(2).period, 0u);
}

TEST_F(Qwen35, HuggingFaceRulesTransformWhatTheFilesStoreDifferently) {
  meta = tenon_meta::load("qwen35.hf.txt");
  Configured model(qwen35(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0;
  ASSERT_EQ(qwen35()->names(model.model, {"hf", 2}, &rules, &n), TENON_OK);
  std::map<std::string, tenon_name_rule> by_name;
  size_t unused = 0;
  for (uint32_t i = 0; i < n; ++i) {
    unused += rules[i].transform == TENON_TRANSFORM_UNUSED;
    by_name[text_of(rules[i].canonical)] = rules[i];
  }
  EXPECT_EQ(by_name.at("blk.{i}.attn_q_norm.weight").transform, uint32_t{TENON_TRANSFORM_ADD_ONE});
  EXPECT_EQ(by_name.at("blk.{i}.ssm_norm.weight").transform, uint32_t{TENON_TRANSFORM_NONE});
  EXPECT_EQ(by_name.at("blk.{i}.ssm_a").transform, uint32_t{TENON_TRANSFORM_MINUS_EXP});
  EXPECT_EQ(text_of(by_name.at("blk.{i}.ssm_a").source), "model.language_model.layers.{i}.linear_attn.A_log");
  EXPECT_EQ(by_name.at("blk.{i}.ssm_conv1d.weight").a, 1024);
  EXPECT_EQ(by_name.at("blk.{i}.ssm_conv1d.weight").b, 4);
  size_t expected = 0;
  for (const auto& [name, dims] : meta.tensors) expected += name.substr(0, 13) == "model.visual.";
  EXPECT_EQ(unused, expected);
  EXPECT_EQ(by_name.at("blk.8.nextn.hnorm.weight").transform, uint32_t{TENON_TRANSFORM_ADD_ONE});
  EXPECT_EQ(text_of(by_name.at("blk.8.attn_q.weight").source), "mtp.layers.0.self_attn.q_proj.weight");
}

TEST_F(Qwen35, RefusesTensorsOfTheWrongShapeByName) {
  meta.tensors["blk.3.attn_q.weight"] = {256, 512};
  EXPECT_EQ(refusal(),
            "tensor blk.3.attn_q.weight: shape [256, 512], but qwen35 expects [256, 1024] (query and gate fused)");
}

TEST_F(Qwen35, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    int64_t value;
    const char* message;
  } cases[] = {
      {"qwen35.block_count", 0, "qwen35.block_count: expected an integer from 1 to 512, found 0"},
      {"qwen35.nextn_predict_layers", 9, "qwen35.nextn_predict_layers: expected fewer than 9 (block_count), found 9"},
      {"qwen35.attention.head_count", 0,
       "qwen35.attention.head_count: expected 1 or more in attention layer 3, found 0"},
      {"qwen35.attention.head_count_kv", 4,
       "qwen35.attention.head_count_kv: expected a divisor of 2 (attention.head_count), found 4"},
      {"qwen35.attention.key_length", 1, "qwen35.attention.key_length: expected an integer from 2 to 1024, found 1"},
      {"qwen35.attention.value_length", 128,
       "qwen35.attention.value_length: expected 256 (attention.key_length), found 128"},
      {"qwen35.rope.dimension_count", 258, "qwen35.rope.dimension_count: expected an integer from 2 to 256, found 258"},
      {"qwen35.rope.dimension_count", 63,
       "qwen35.rope.dimension_count: expected an even number of rotary dimensions up to 256, found 63"},
      {"qwen35.ssm.state_size", 0, "qwen35.ssm.state_size: expected an integer from 2 to 1024, found 0"},
      {"qwen35.ssm.group_count", 3,
       "qwen35.ssm.time_step_rank: expected a multiple of 3 (ssm.group_count, the key heads), found 4"},
      {"qwen35.ssm.inner_size", 500,
       "qwen35.ssm.inner_size: expected 512 (ssm.time_step_rank × ssm.state_size), found 500"},
      {"qwen35.ssm.conv_kernel", 1, "qwen35.ssm.conv_kernel: expected an integer from 2 to 16, found 1"},
  };
  for (const auto& c : cases) {
    meta = tenon_meta::load("qwen35.gguf.txt");
    meta.set(c.key, c.value);
    EXPECT_EQ(refusal(), c.message);
  }
  meta = tenon_meta::load("qwen35.gguf.txt");
  meta.set_array("qwen35.rope.dimension_sections", TENON_VALUE_I32, {11, 11, 9, 0});
  EXPECT_EQ(refusal(),
            "qwen35.rope.dimension_sections: expected sections that sum to 32 (half the rotary dimensions), found 31");
  meta.set_array("qwen35.rope.dimension_sections", TENON_VALUE_I32, {11, 11, -10, 0});
  EXPECT_TRUE(contains(refusal(), "qwen35.rope.dimension_sections[2]"));
  meta = tenon_meta::load("qwen35.gguf.txt");
  meta.set_real("qwen35.attention.layer_norm_rms_epsilon", 0);
  EXPECT_EQ(refusal(), "qwen35.attention.layer_norm_rms_epsilon: expected a number above 0, found 0");
}

// Draft blocks are not written, so lists are shorter by them.
TEST_F(Qwen35, SaysWhatAGgufFileHolds) {
  const Said said(qwen35(), tenon_meta::load("qwen35.hf.txt"));
  expect_says_what_a_file_does(said, meta, "qwen35", {"block_count", "nextn_predict_layers", "attention.recurrent_layers"});
  const tenon_reorder* values = said.reorder("blk.{i}.attn_qkv.weight");
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(values->axis, 1u);
  EXPECT_EQ(values->first, 2 * 2 * 128);
  EXPECT_EQ(values->a, 2);
  EXPECT_EQ(values->b, 2);
  EXPECT_EQ(values->unit, 128);
  ASSERT_NE(said.reorder("blk.{i}.ssm_out.weight"), nullptr);
  EXPECT_EQ(said.reorder("blk.{i}.ssm_out.weight")->axis, 0u);
}

}  // namespace
}  // namespace tenon::test
