// gemma_test.cpp: gemma3 from its metadata to its graph, and what bad metadata is told.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_builder.hpp"
#include "written.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

using ::testing::Test;

const tenon_architecture* gemma3() {
  static const tenon_architecture* found = architecture(tenon_plugin_entry(), "gemma3");
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Gemma3 : public Test {
 protected:
  tenon_meta meta = tenon_meta::load("gemma3.gguf.txt");

  // Builds "main" and answers the recorded graph.
  FakeBuilder build() {
    Configured model(gemma3(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    EXPECT_EQ(gemma3()->build(model.model, {"main", 4}, builder.table()), TENON_OK) << take_message();
    return builder;
  }
  std::string refusal() {
    Configured model(gemma3(), meta);
    EXPECT_NE(model.status, TENON_OK);
    return model.message;
  }
};

TEST_F(Gemma3, ClaimsOnlyItsOwnFiles) {
  uint32_t score = 0;
  ASSERT_EQ(gemma3()->score(gemma3()->self, &meta, &score), TENON_OK);
  EXPECT_EQ(score, 100u);
  meta.set_string("general.architecture", "gemma2");
  ASSERT_EQ(gemma3()->score(gemma3()->self, &meta, &score), TENON_OK);
  EXPECT_EQ(score, 0u);
}

TEST_F(Gemma3, TellsItsLimits) {
  Configured model(gemma3(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  tenon_limits limits = {};
  ASSERT_EQ(gemma3()->limits(model.model, &limits), TENON_OK);
  EXPECT_EQ(limits.n_layer, 7u);
  EXPECT_EQ(limits.width, 256);
  EXPECT_EQ(limits.vocab, 1024);
  EXPECT_EQ(limits.context, 8192);
  ASSERT_EQ(limits.n_entry, 1u);
  EXPECT_EQ(std::string(limits.entries[0].data, limits.entries[0].size), "main");
}

TEST_F(Gemma3, BuildsEveryLayerInOrder) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.ops(-1), "embed");
  const std::string layer =
      "norm linear3 norm norm rope rope kv_write attention linear norm add norm linear2 glu linear norm add";
  for (int i = 0; i < 6; ++i) EXPECT_EQ(g.ops(i), layer) << "layer " << i;
  EXPECT_EQ(g.ops(6), layer + " select norm linear");
  EXPECT_EQ(g.values[size_t(g.logits_value)].cols, 1024);
  EXPECT_EQ(g.softcap, 0.0f);
}

TEST_F(Gemma3, ScalesEmbeddingsByTheRootOfTheWidth) {
  EXPECT_FLOAT_EQ(build().nodes.at(0).as<tenon_embed_attr>().scale, 16.0f);
}

TEST_F(Gemma3, EverySixthLayerIsGlobalWithItsOwnRotation) {
  const FakeBuilder g = build();
  ASSERT_EQ(g.stores.size(), 7u);
  int layer = 0;
  for (const Recorded& node : g.nodes) {
    if (node.op == TENON_OP_ROPE) {
      EXPECT_EQ(node.weights[0], node.layer == 5 ? "rope.global" : "rope.local");
      EXPECT_EQ(node.as<tenon_rope_attr>().n_rot, 128u);
      EXPECT_EQ(node.as<tenon_rope_attr>().style, uint32_t{TENON_ROPE_HALF});
    }
    if (node.op != TENON_OP_ATTENTION) continue;
    const auto a = node.as<tenon_attention_attr>();
    EXPECT_EQ(a.window, layer == 5 ? 0 : 32);
    EXPECT_FLOAT_EQ(a.scale, 1.0f / std::sqrt(128.0f));
    EXPECT_EQ(a.heads, 2u);
    EXPECT_EQ(a.kv_heads, 1u);
    EXPECT_EQ(a.span_mask, 1u);
    ++layer;
  }
  EXPECT_EQ(layer, 7);
  const auto& local = g.find("rope.local")->values;
  ASSERT_EQ(local.size(), 64u);
  EXPECT_EQ(local[0], 1.0f);
  EXPECT_EQ(local[32], 1.0f / std::pow(10000.0f, 0.5f));
  EXPECT_EQ(g.find("rope.global")->values[32], 1.0f / std::pow(1000000.0f, 0.5f));
}

TEST_F(Gemma3, LinearScalingTouchesGlobalLayersOnly) {
  meta.set_string("gemma3.rope.scaling.type", "linear");
  meta.set_real("gemma3.rope.scaling.factor", 8);
  const FakeBuilder g = build();
  EXPECT_EQ(g.find("rope.local")->values[0], 1.0f);
  EXPECT_EQ(g.find("rope.global")->values[0], 0.125f);
}

TEST_F(Gemma3, PatternMayBeANumberOrAList) {
  const auto windows = [&] {
    std::vector<int> out;
    for (const auto& store : build().stores) out.push_back(store.window);
    return out;
  };
  meta.set("gemma3.attention.sliding_window_pattern", 3);
  EXPECT_EQ(windows(), (std::vector<int>{32, 32, 0, 32, 32, 0, 32}));
  meta.set_array("gemma3.attention.sliding_window_pattern", TENON_VALUE_BOOL, {0, 1, 1, 1, 1, 1, 0});
  EXPECT_EQ(windows(), (std::vector<int>{0, 32, 32, 32, 32, 32, 0}));
  meta.set_array("gemma3.attention.sliding_window_pattern", TENON_VALUE_BOOL, {0, 1});
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, "gemma3.attention.sliding_window_pattern: expected 7 entries (one a layer), found 2"))
      << message;
}

TEST_F(Gemma3, HeadReadsTheEmbeddingUnlessTheFileHasItsOwn) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.find("output.weight")->tied_to, "token_embd.weight");
  EXPECT_EQ(g.find("output.weight")->decl.role, uint32_t{TENON_ROLE_VOCAB});
}

TEST_F(Gemma3, TapsWhatEntersEachLayerAndTheNormedEnd) {
  const FakeBuilder g = build();
  ASSERT_EQ(g.taps.size(), 8u);
  EXPECT_EQ(g.producer(g.taps.at("hidden.0"))->name, "embed");
  EXPECT_EQ(g.producer(g.taps.at("hidden.3"))->layer, 2);
  const Recorded* last = g.producer(g.taps.at("hidden.7"));
  EXPECT_EQ(last->weights.at(0), "output_norm.weight");
  EXPECT_EQ(g.producer(last->in[0])->name, "select");
}

TEST_F(Gemma3, SandwichNormsStandInsideTheResidual) {
  const FakeBuilder g = build();
  const Recorded* post = g.user("blk.2.post_attention_norm.weight");
  EXPECT_EQ(g.producer(post->in[0])->weights.at(0), "blk.2.attn_output.weight");
  const Recorded* post_ffw = g.user("blk.2.post_ffw_norm.weight");
  EXPECT_EQ(g.producer(post_ffw->in[0])->weights.at(0), "blk.2.ffn_down.weight");
  for (const Recorded& node : g.nodes)
    if (node.op == TENON_OP_GLU) {
      EXPECT_EQ(node.as<tenon_glu_attr>().activation, uint32_t{TENON_ACT_GELU_TANH});
    }
}

TEST_F(Gemma3, NormsHeadsOfQueryAndKeyOneByOne) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.user("blk.0.attn_q_norm.weight")->as<tenon_norm_attr>().group, 128u);
  EXPECT_EQ(g.user("blk.0.attn_norm.weight")->as<tenon_norm_attr>().group, 0u);
  EXPECT_FLOAT_EQ(g.user("blk.0.attn_norm.weight")->as<tenon_norm_attr>().eps, 1e-6f);
}

TEST_F(Gemma3, ModelWith62LayersScalesByWidthOverHeads) {
  const auto tensors = meta.tensors;
  for (const auto& [name, dims] : tensors)
    if (name.substr(0, 6) == "blk.0.")
      for (int i = 7; i < 62; ++i) meta.tensors["blk." + std::to_string(i) + name.substr(5)] = dims;
  // One head of 128 in a width of 256, so that the two rules differ.
  meta.set("gemma3.attention.head_count", 1);
  for (auto& [name, dims] : meta.tensors) {
    if (contains(name, "attn_q.weight")) dims = {256, 128};
    if (contains(name, "attn_output.weight")) dims = {128, 256};
  }
  const auto scale = [&] { return build().nodes.at(8).as<tenon_attention_attr>().scale; };
  EXPECT_FLOAT_EQ(scale(), 1.0f / std::sqrt(128.0f));
  meta.set("gemma3.block_count", 62);
  EXPECT_FLOAT_EQ(scale(), 1.0f / std::sqrt(256.0f));
}

TEST_F(Gemma3, FinalSoftcapFollowsTheMetadata) {
  meta.set_real("gemma3.final_logit_softcapping", 30);
  EXPECT_EQ(build().softcap, 30.0f);
}

TEST_F(Gemma3, ReadsAHuggingFaceFolderToTheSameGraph) {
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("gemma3.hf.txt");
  uint32_t score = 0;
  ASSERT_EQ(gemma3()->score(gemma3()->self, &meta, &score), TENON_OK);
  EXPECT_EQ(score, 100u);
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) {
    EXPECT_EQ(hf.nodes[i].name, gguf.nodes[i].name) << i;
    EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
    EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << " " << hf.nodes[i].name;
  }
}

TEST_F(Gemma3, HuggingFaceNormsGetTheirOneAdded) {
  meta = tenon_meta::load("gemma3.hf.txt");
  Configured model(gemma3(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0;
  ASSERT_EQ(gemma3()->names(model.model, {"hf", 2}, &rules, &n), TENON_OK);
  int norms = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const std::string name(rules[i].canonical.data, rules[i].canonical.size);
    const bool norm = contains(name, "norm");
    norms += norm;
    EXPECT_EQ(rules[i].transform, norm ? uint32_t{TENON_TRANSFORM_ADD_ONE} : uint32_t{TENON_TRANSFORM_NONE}) << name;
  }
  EXPECT_EQ(norms, 7);
  EXPECT_EQ(gemma3()->names(model.model, {"onnx", 4}, &rules, &n), TENON_NOT_FOUND);
}

TEST_F(Gemma3, EveryTensorOfTheFileHasARule) {
  Configured model(gemma3(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0;
  ASSERT_EQ(gemma3()->names(model.model, {"gguf", 4}, &rules, &n), TENON_OK);
  for (const auto& [name, dims] : meta.tensors) {
    int hits = 0;
    for (uint32_t i = 0; i < n; ++i) {
      std::string source(rules[i].source.data, rules[i].source.size);
      if (name.substr(0, 4) == "blk." && source.find("{i}") != std::string::npos)
        source.replace(source.find("{i}"), 3, name.substr(4, 1));
      hits += source == name;
    }
    EXPECT_EQ(hits, 1) << name;
  }
}

TEST_F(Gemma3, RefusesTensorsOfTheWrongShapeByName) {
  meta.tensors["blk.3.attn_k.weight"] = {256, 64};
  const std::string message = refusal();
  EXPECT_EQ(message, "tensor blk.3.attn_k.weight: shape [256, 64], but gemma3 expects [256, 128]");
}

TEST_F(Gemma3, RefusesAMissingTensorByName) {
  meta.tensors.erase("blk.6.post_ffw_norm.weight");
  EXPECT_EQ(refusal(), "tensor blk.6.post_ffw_norm.weight: missing, but gemma3 expects it with shape [256]");
}

TEST_F(Gemma3, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    int64_t value;
    const char* message;
  } cases[] = {
      {"gemma3.block_count", 0, "gemma3.block_count: expected an integer from 1 to 512, found 0"},
      {"gemma3.block_count", 513, "gemma3.block_count: expected an integer from 1 to 512, found 513"},
      {"gemma3.attention.head_count", 0, "gemma3.attention.head_count: expected an integer from 1 to 4096, found 0"},
      {"gemma3.attention.head_count_kv", 3, "gemma3.attention.head_count_kv: expected an integer from 1 to 2, found 3"},
      {"gemma3.attention.key_length", 127,
       "gemma3.attention.value_length: expected 127 (attention.key_length), found 128"},
      {"gemma3.attention.key_length", 4096,
       "gemma3.attention.key_length: expected an integer from 2 to 1024, found 4096"},
      {"gemma3.attention.sliding_window", 0, "gemma3.attention.sliding_window: expected an integer from 1"},
      {"gemma3.feed_forward_length", 0, "gemma3.feed_forward_length: expected an integer from 1"},
      {"gemma3.embedding_length", int64_t{1} << 30, "gemma3.embedding_length: expected an integer from 1"},
  };
  for (const auto& c : cases) {
    meta = tenon_meta::load("gemma3.gguf.txt");
    meta.set(c.key, c.value);
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, c.message)) << message;
  }
  meta = tenon_meta::load("gemma3.gguf.txt");
  meta.set_string("gemma3.rope.scaling.type", "yarn");
  EXPECT_EQ(refusal(), "gemma3.rope.scaling.type: expected none or linear, found \"yarn\"");
}

TEST_F(Gemma3, RefusesAMissingOrMistypedKey) {
  meta.values.erase("gemma3.embedding_length");
  EXPECT_EQ(refusal(), "gemma3.embedding_length: expected a value (gemma3 needs it), found no such key");
  meta.set_string("gemma3.embedding_length", "wide");
  EXPECT_EQ(refusal(), "gemma3.embedding_length: expected an integer, found the string \"wide\"");
}

TEST_F(Gemma3, KeepsTheHostsMessageWhenTheBuilderRefuses) {
  Configured model(gemma3(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  FakeBuilder builder(&meta);
  builder.refuse_op_at = 20;
  EXPECT_EQ(gemma3()->build(model.model, {"main", 4}, builder.table()), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(take_message(), "refused by the test");
}

TEST_F(Gemma3, RefusesAnUnknownEntry) {
  Configured model(gemma3(), meta);
  FakeBuilder builder(&meta);
  EXPECT_EQ(gemma3()->build(model.model, {"draft.0", 7}, builder.table()), TENON_NOT_FOUND);
  EXPECT_EQ(take_message(), "gemma3 has no entry 'draft.0'; it has: main");
}

TEST_F(Gemma3, SaysWhatAGgufFileHolds) {
  tenon_meta config = tenon_meta::load("gemma3.hf.txt");
  expect_says_what_a_file_does(Said(gemma3(), config), meta, "gemma3");
  config.set("query_pre_attn_scalar", 100);
  const Said other(gemma3(), config);
  EXPECT_EQ(other.status, TENON_UNSUPPORTED);
  EXPECT_NE(other.message.find("query_pre_attn_scalar"), std::string::npos) << other.message;
}

}  // namespace
}  // namespace tenon::test
