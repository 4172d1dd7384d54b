// gemma4_test.cpp: gemma4, dense and of the E-series, from its metadata to its graph, and what bad metadata is told.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_builder.hpp"
#include "written.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

const tenon_architecture* gemma4() {
  static const tenon_architecture* found = architecture(tenon_plugin_entry(), "gemma4");
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Gemma4Base : public ::testing::Test {
 protected:
  explicit Gemma4Base(const std::string& name) : name_(name), meta(tenon_meta::load(name + ".gguf.txt")) {}
  void reload() { meta = tenon_meta::load(name_ + ".gguf.txt"); }
  FakeBuilder build() {
    Configured model(gemma4(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    if (model.status == TENON_OK) {
      EXPECT_EQ(gemma4()->build(model.model, {"main", 4}, builder.table()), TENON_OK) << take_message();
    }
    return builder;
  }
  std::string refusal(tenon_status status = TENON_CORRUPT) {
    Configured model(gemma4(), meta);
    EXPECT_EQ(model.status, status) << model.message;
    return model.message;
  }
  void expect_same_graph_from_hugging_face() {
    const FakeBuilder gguf = build();
    meta = tenon_meta::load(name_ + ".hf.txt");
    const FakeBuilder hf = build();
    ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
    for (size_t i = 0; i < hf.nodes.size(); ++i) {
      EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << " " << hf.nodes[i].name;
      if (hf.nodes[i].op != TENON_OP_ROPE) {
        EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
      }
    }
    EXPECT_EQ(hf.softcap, gguf.softcap);
  }

  std::string name_;
  tenon_meta meta;
};

class Gemma4 : public Gemma4Base {
 protected:
  Gemma4() : Gemma4Base("gemma4") {}
};
class Gemma4E : public Gemma4Base {
 protected:
  Gemma4E() : Gemma4Base("gemma4e") {}
};

TEST_F(Gemma4, BuildsLocalLayersAndGlobalOnesWhoseValueIsTheKey) {
  const FakeBuilder g = build();
  const std::string behind =
      " norm rope norm kv_write norm rope attention linear norm add norm linear2 glu linear norm add mul";
  for (int i : {0, 1, 3, 4}) EXPECT_EQ(g.ops(i), "norm linear3" + behind) << i;
  EXPECT_EQ(g.ops(2), "norm linear2" + behind);
  EXPECT_EQ(g.softcap, 30.0f);
}

TEST_F(Gemma4, TheValueIsNormedWithoutAWeightBeforeTheKeysNorm) {
  const FakeBuilder g = build();
  for (const Recorded& node : g.nodes) {
    if (node.op != TENON_OP_KV_WRITE) continue;
    const Recorded* value = g.producer(node.in[1]);
    ASSERT_EQ(value->name, "norm");
    EXPECT_TRUE(value->weights.empty());
    EXPECT_EQ(value->as<tenon_norm_attr>().group, node.layer % 3 == 2 ? 512u : 256u);
    const Recorded* raw = g.producer(value->in[0]);
    EXPECT_EQ(raw->name, "linear");
    const Recorded* key = g.producer(g.producer(g.producer(node.in[0])->in[0])->in[0]);  // before rotation and norm
    EXPECT_EQ(key, raw);
    const bool same = g.producer(g.producer(node.in[0])->in[0])->in[0] == value->in[0];
    EXPECT_EQ(same, node.layer % 3 == 2) << "layer " << node.layer;
  }
}

TEST_F(Gemma4, AttentionIsUnscaledAndHeadsHaveTwoWidths) {
  const FakeBuilder g = build();
  int layer = 0;
  for (const Recorded& node : g.nodes) {
    if (node.op != TENON_OP_ATTENTION) continue;
    const auto a = node.as<tenon_attention_attr>();
    EXPECT_EQ(a.scale, 1.0f);
    EXPECT_EQ(a.head_dim, layer % 3 == 2 ? 512u : 256u);
    EXPECT_EQ(a.window, layer % 3 == 2 ? 0 : 32);
    EXPECT_EQ(a.span_mask, layer % 3 == 2 ? 0u : 1u) << "images see themselves both ways in local layers";
    ++layer;
  }
  EXPECT_EQ(layer, 6);
}

TEST_F(Gemma4, GlobalLayersAloneAreDividedByTheTensor) {
  const FakeBuilder g = build();
  for (const Recorded& node : g.nodes)
    if (node.op == TENON_OP_ROPE) {
      const auto expected = node.layer % 3 == 2 ? std::vector<std::string>{"rope.global", "rope_freqs.weight"}
                                                : std::vector<std::string>{"rope.local"};
      EXPECT_EQ(node.weights, expected);
      EXPECT_EQ(node.as<tenon_rope_attr>().n_rot, node.layer % 3 == 2 ? 512u : 256u);
    }
  EXPECT_EQ(g.find("rope.global")->values[32], 1.0f / std::pow(1e6f, 64.0f / 512));
  EXPECT_EQ(g.find("rope.local")->values[32], 1.0f / std::pow(1e4f, 64.0f / 256));
  meta.tensors.erase("rope_freqs.weight");
  EXPECT_EQ(refusal(), "tensor rope_freqs.weight: missing, but gemma4 expects it with shape [256]");
}

TEST_F(Gemma4, EveryLayerEndsWithItsScalar) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.producer(g.taps.at("hidden.3"))->weights.at(0), "blk.2.layer_output_scale.weight");
  meta.tensors.erase("blk.4.layer_output_scale.weight");
  EXPECT_EQ(refusal(), "tensor blk.4.layer_output_scale.weight: missing, but gemma4 expects it with shape [1]");
}

TEST_F(Gemma4, ReadsAHuggingFaceFolderToTheSameGraph) { expect_same_graph_from_hugging_face(); }

TEST_F(Gemma4, AConfigMaySayThatImagesAreCausal) {
  meta = tenon_meta::load("gemma4.hf.txt");
  meta.set_string("text_config.use_bidirectional_attention", "none");
  const FakeBuilder g = build();
  EXPECT_GE(g.overlay, 0);
  for (const Recorded& node : g.nodes) {
    if (node.op == TENON_OP_ATTENTION) EXPECT_EQ(node.as<tenon_attention_attr>().span_mask, 0u);
  }
}

TEST_F(Gemma4, AssistantsFindStoresByKindAndTheNormedRows) {
  const FakeBuilder g = build();
  const std::vector<std::string> expected = {"local", "local", "global", "local", "local", "global"};
  ASSERT_EQ(g.stores.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::string(g.stores[i].role.data, g.stores[i].role.size), expected[i]) << i;
  EXPECT_EQ(g.taps.at("draft.hidden"), g.taps.at("hidden.6"));
}

// An assistant's folder, made of a model's: its text model has the same type, but no keys.
TEST_F(Gemma4, AnAssistantAsksTheModelsKeysInEveryLayer) {
  meta = tenon_meta::load("gemma4.hf.txt");
  meta.set_string("model_type", "gemma4_assistant");
  meta.set("backbone_hidden_size", 512), meta.set("text_config.num_kv_shared_layers", 6);
  meta.values.erase("text_config.final_logit_softcapping");
  std::erase_if(meta.tensors, [](const auto& tensor) {
    return contains(tensor.first, "k_proj") || contains(tensor.first, "v_proj") || contains(tensor.first, "k_norm");
  });
  meta.tensors["pre_projection.weight"] = {1024, 256}, meta.tensors["post_projection.weight"] = {256, 512};
  const tenon_architecture* assistant = architecture(tenon_plugin_entry(), "gemma4-assistant");
  uint32_t score = 0, of_gemma4 = 0;
  ASSERT_EQ(assistant->score(assistant->self, &meta, &score), TENON_OK);
  ASSERT_EQ(gemma4()->score(gemma4()->self, &meta, &of_gemma4), TENON_OK);
  EXPECT_GT(score, of_gemma4);

  Configured model(assistant, meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  tenon_limits limits = {};
  ASSERT_EQ(assistant->limits(model.model, &limits), TENON_OK);
  EXPECT_EQ(limits.width, 512);
  EXPECT_EQ(std::string(limits.drafts_for.data, limits.drafts_for.size), "gemma4");
  ASSERT_EQ(limits.n_entry, 1u);
  EXPECT_EQ(std::string(limits.entries[0].data, limits.entries[0].size), "draft.0");

  FakeBuilder g(&meta);
  g.hidden_width = 512;
  g.target_weights = {{"token_embd.weight", {1024, 512}}};
  ASSERT_EQ(assistant->build(model.model, {"draft.0", 7}, g.table()), TENON_OK) << take_message();
  EXPECT_EQ(g.ops(-1), "embed concat linear");
  EXPECT_EQ(g.nodes.at(0).as<tenon_embed_attr>().scale, std::sqrt(512.0f));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(g.ops(i), "norm linear norm rope attention linear norm add norm linear2 glu linear norm add mul") << i;
  for (const tenon_store_decl& store : g.stores)
    EXPECT_EQ(std::string(store.target.data, store.target.size), store.window ? "local" : "global");
  EXPECT_EQ(g.softcap, 0.0f);
  EXPECT_EQ(g.producer(g.taps.at("draft.hidden"))->weights.at(0), "nextn.post_projection.weight");
  EXPECT_EQ(g.producer(g.logits_value)->weights.at(0), "token_embd.weight");
}

TEST_F(Gemma4, HuggingFaceRotationIsProportional) {
  meta = tenon_meta::load("gemma4.hf.txt");
  const FakeBuilder g = build();
  const auto& inv = g.find("rope.global")->values;
  EXPECT_EQ(inv[63], 1.0f / std::pow(1e6f, 126.0f / 512));
  for (size_t i = 64; i < inv.size(); ++i) EXPECT_EQ(inv[i], 0.0f);
}

TEST_F(Gemma4, SuppressedTokensAreNeverSampled) {
  EXPECT_TRUE(build().never.empty());
  meta.set_array("tokenizer.ggml.suppress_tokens", TENON_VALUE_I32, {17, 0});
  EXPECT_EQ(build().never, (std::vector<int32_t>{17, 0}));
  meta.set_array("tokenizer.ggml.suppress_tokens", TENON_VALUE_I32, {1024});
  EXPECT_EQ(refusal(), "tokenizer.ggml.suppress_tokens: expected ids from 0 to 1023, found 1024");
  meta.set_array("tokenizer.ggml.suppress_tokens", TENON_VALUE_I32, {-1});
  EXPECT_TRUE(contains(refusal(), "found -1"));
}

TEST_F(Gemma4, AFileWithoutACapHasThatOfEveryRelease) {
  meta.values.erase("gemma4.final_logit_softcapping");
  EXPECT_EQ(build().softcap, 30.0f);
  meta = tenon_meta::load("gemma4.hf.txt");
  meta.values.erase("text_config.final_logit_softcapping");
  EXPECT_EQ(build().softcap, 0.0f);
}

TEST_F(Gemma4, KeyValueHeadsMayDifferByLayer) {
  meta.set_array("gemma4.attention.head_count_kv", TENON_VALUE_I32, {2, 2, 1, 2, 2, 1});
  for (int i : {0, 1, 3, 4})
    for (const char* name : {"k", "v"})
      meta.tensors["blk." + std::to_string(i) + ".attn_" + name + ".weight"] = {256, 512};
  const FakeBuilder g = build();
  EXPECT_EQ(g.stores[0].heads, 2u);
  EXPECT_EQ(g.stores[2].heads, 1u);
}

TEST_F(Gemma4, RefusesGlobalLayersThatDisagreeAboutTheirValues) {
  meta.tensors["blk.2.attn_v.weight"] = {256, 512};
  EXPECT_EQ(refusal(), "tensor blk.5.attn_v.weight: missing, while another global layer has blk.2.attn_v.weight");
  reload();
  meta.tensors.erase("blk.1.attn_v.weight");
  EXPECT_EQ(refusal(), "tensor blk.1.attn_v.weight: missing, but gemma4 expects it with shape [256, 256]");
}

TEST_F(Gemma4, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    int64_t value;
    const char* message;
  } cases[] = {
      {"block_count", 0, "block_count: expected an integer from 1 to 512, found 0"},
      {"attention.head_count", 0, "attention.head_count: expected an integer from 1 to 4096, found 0"},
      {"attention.head_count_kv", 0, "attention.head_count_kv: expected an integer from 1 to 2, found 0"},
      {"attention.key_length", 511, "attention.value_length: expected 511 (the keys' width), found 512"},
      {"attention.key_length", 1 << 20, "attention.key_length: expected an integer from 2 to 1024"},
      {"attention.key_length_swa", 0, "attention.key_length_swa: expected an integer from 2 to 1024, found 0"},
      {"attention.sliding_window", 0, "attention.sliding_window: expected an integer from 1"},
      {"attention.sliding_window", int64_t{1} << 31, "attention.sliding_window: expected an integer from 1"},
      {"attention.shared_kv_layers", 6, "attention.shared_kv_layers: expected an integer from 0 to 5, found 6"},
      {"attention.shared_kv_layers", 4, "attention.shared_kv_layers: expected a layer with own keys for each kind"},
      {"rope.dimension_count", 1024, "rope.dimension_count: expected an integer from 2 to 512, found 1024"},
      {"rope.dimension_count_swa", 7,
       "rope.dimension_count_swa: expected an even number of rotary dimensions, found 7"},
      {"embedding_length_per_layer_input", -1, "embedding_length_per_layer_input: expected an integer from 0"},
      {"feed_forward_length", 0, "feed_forward_length: expected an integer from 1"},
  };
  for (const auto& c : cases) {
    reload();
    meta.set(std::string("gemma4.") + c.key, c.value);
    const std::string message = refusal(contains(c.message, "the keys' width") ? TENON_UNSUPPORTED : TENON_CORRUPT);
    EXPECT_TRUE(contains(message, std::string("gemma4.") + c.message)) << message;
  }
  reload();
  meta.set_array("gemma4.attention.head_count_kv", TENON_VALUE_I32, {1, 1});
  EXPECT_TRUE(contains(refusal(), "gemma4.attention.head_count_kv: expected one number or an array of 6"));
  reload();
  meta.set_array("gemma4.attention.sliding_window_pattern", TENON_VALUE_BOOL, {1, 1});
  EXPECT_TRUE(contains(refusal(), "sliding_window_pattern: expected 6 entries (one a layer), found 2"));
  reload();
  meta.set("gemma4.attention.causal", 0);
  EXPECT_EQ(refusal(TENON_UNSUPPORTED), "gemma4.attention.causal: expected true, found false");
}

TEST_F(Gemma4E, TheLastLayersReadTheKeysOfTheLastLayerOfTheirKind) {
  const FakeBuilder g = build();
  std::vector<int32_t> alias;
  for (const auto& store : g.stores) alias.push_back(store.alias);
  EXPECT_EQ(alias, (std::vector<int32_t>{-1, -1, -1, -1, 2, 2, 2, 3}));
  for (int i = 4; i < 8; ++i) {
    EXPECT_EQ(g.ops(i).find("norm linear norm rope attention linear "), 0u) << g.ops(i);
    EXPECT_FALSE(contains(g.ops(i), "kv_write"));
  }
}

TEST_F(Gemma4E, EmbeddingsOfAllLayersAreMadeOnceBeforeTheFirst) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.ops(-1), "embed embed linear scale norm add scale");
  EXPECT_EQ(g.overlay, -1) << "an image's rows would have no embeddings of the layers";
  EXPECT_EQ(g.nodes[1].weights[0], "per_layer_token_embd.weight");
  EXPECT_EQ(g.nodes[1].as<tenon_embed_attr>().scale, 8.0f);
  EXPECT_EQ(g.user("per_layer_proj_norm.weight")->as<tenon_norm_attr>().group, 64u);
  const Recorded* gate = g.user("blk.5.inp_gate.weight");
  for (const Recorded& node : g.nodes)
    if (node.op == TENON_OP_GLU && node.in[0] == gate->out[0]) {
      const RecordedValue& own = g.values[size_t(node.in[1])];
      EXPECT_EQ(own.col0, 5 * 64);
      EXPECT_EQ(own.cols, 64);
      EXPECT_EQ(node.as<tenon_glu_attr>().activation, uint32_t{TENON_ACT_GELU_TANH});
    }
}

TEST_F(Gemma4E, TheScalarComesBehindTheLayersEmbedding) {
  const FakeBuilder g = build();
  const Recorded* scalar = g.producer(g.taps.at("hidden.1"));
  ASSERT_EQ(scalar->weights.at(0), "blk.0.layer_output_scale.weight");
  const Recorded* sum = g.producer(scalar->in[0]);
  EXPECT_EQ(g.producer(sum->in[1])->weights.at(0), "blk.0.post_norm.weight");
}

TEST_F(Gemma4E, KeysOfLayersThatShareThemAreKnownAndUnused) {
  meta.tensors["blk.6.attn_k.weight"] = {256, 128};
  meta.tensors["blk.6.attn_k_norm.weight"] = {128};
  Configured model(gemma4(), meta);
  ASSERT_EQ(model.status, TENON_OK) << model.message;
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0, unused = 0;
  ASSERT_EQ(gemma4()->names(model.model, {"gguf", 4}, &rules, &n), TENON_OK);
  for (uint32_t i = 0; i < n; ++i) unused += rules[i].transform == TENON_TRANSFORM_UNUSED;
  EXPECT_EQ(unused, 2u);
}

TEST_F(Gemma4E, ReadsAHuggingFaceFolderToTheSameGraph) { expect_same_graph_from_hugging_face(); }

TEST_F(Gemma4E, RefusesTablesThatDoNotFit) {
  meta.tensors["per_layer_token_embd.weight"] = {512, 1000};
  EXPECT_TRUE(
      contains(refusal(), "tensor per_layer_token_embd.weight: shape [512, 1000], but gemma4 expects [512, 1024]"));
  reload();
  meta.set_array("gemma4.feed_forward_length", TENON_VALUE_I32, {256, 256});
  EXPECT_TRUE(contains(refusal(), "gemma4.feed_forward_length: expected one number or an array of 8"));
}

TEST(Gemma4Written, SaysWhatAGgufFileHolds) {
  const tenon_architecture* served = architecture(tenon_plugin_entry(), "gemma4");
  for (const char* name : {"gemma4", "gemma4e", "gemma4moe"}) {
    SCOPED_TRACE(name);
    const Said said(served, tenon_meta::load(std::string(name) + ".hf.txt"));
    expect_says_what_a_file_does(said, tenon_meta::load(std::string(name) + ".gguf.txt"), "gemma4");
    ASSERT_EQ(said.table.n_constant, 1u);
    const tenon_constant& divisors = said.table.constant[0];
    EXPECT_EQ(text_of(divisors.name), "rope_freqs.weight");
    // A quarter of the pairs turns.
    EXPECT_EQ(divisors.values[divisors.cols / 4 - 1], 1.0f);
    EXPECT_EQ(divisors.values[divisors.cols / 4], 1e30f);
  }
}

}  // namespace
}  // namespace tenon::test
