// llama_test.cpp: llama, qwen2 and qwen3 from their metadata to their graphs, and what bad metadata is told.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_builder.hpp"
#include "written.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Dense : public ::testing::Test {
 protected:
  explicit Dense(const char* id, const char* file) : id_(id), meta(tenon_meta::load(file)) {}

  const tenon_architecture* served() const { return architecture(tenon_plugin_entry(), id_); }
  uint32_t score() const {
    uint32_t out = 0;
    EXPECT_EQ(served()->score(served()->self, &meta, &out), TENON_OK);
    return out;
  }
  FakeBuilder build() {
    Configured model(served(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    if (model.status == TENON_OK) {
      EXPECT_EQ(served()->build(model.model, {"main", 4}, builder.table()), TENON_OK) << take_message();
    }
    return builder;
  }
  std::string refusal(tenon_status status = TENON_CORRUPT) {
    Configured model(served(), meta);
    EXPECT_EQ(model.status, status) << model.message;
    return model.message;
  }
  static const Recorded& first(const FakeBuilder& g, uint32_t op) {
    for (const Recorded& node : g.nodes)
      if (node.op == op) return node;
    throw std::runtime_error("no such node");
  }

  std::string id_;
  tenon_meta meta;
};

class Llama : public Dense {
 protected:
  Llama() : Dense("llama", "llama.gguf.txt") {}
  void add_biases() {
    for (int i = 0; i < 4; ++i)
      for (const auto& [name, n] : {std::pair{"q", 256}, {"k", 128}, {"v", 128}, {"output", 256}})
        meta.tensors["blk." + std::to_string(i) + ".attn_" + name + ".bias"] = {n};
  }
};
class Qwen3 : public Dense {
 protected:
  Qwen3() : Dense("qwen3", "qwen3.gguf.txt") {}
};

TEST_F(Llama, ClaimsItsFilesUnderEveryName) {
  EXPECT_EQ(score(), 100u);
  meta.set_string("general.architecture", "llama4");
  EXPECT_EQ(score(), 0u);
  meta = tenon_meta::load("llama.hf.txt");
  EXPECT_EQ(score(), 100u);
  meta.set_string("model_type", "mistral");
  EXPECT_EQ(score(), 100u);
  meta.set_string("model_type", "qwen3");
  EXPECT_EQ(score(), 0u);
}

TEST_F(Llama, BuildsEveryLayerInOrder) {
  const FakeBuilder g = build();
  const std::string layer = "norm linear3 rope rope kv_write attention linear add norm linear2 glu linear add";
  EXPECT_EQ(g.ops(-1), "embed");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(g.ops(i), layer) << "layer " << i;
  EXPECT_EQ(g.ops(3), layer + " select norm linear");
  EXPECT_EQ(g.values[size_t(g.logits_value)].cols, 1024);
  EXPECT_EQ(first(g, TENON_OP_EMBED).as<tenon_embed_attr>().scale, 1.0f);
  EXPECT_EQ(first(g, TENON_OP_EMBED).in.at(1), g.overlay);
  EXPECT_EQ(first(g, TENON_OP_GLU).as<tenon_glu_attr>().activation, uint32_t{TENON_ACT_SILU});
  const auto a = first(g, TENON_OP_ATTENTION).as<tenon_attention_attr>();
  EXPECT_EQ(a.window, 0);
  EXPECT_EQ(a.scale, 0.125f);
}

TEST_F(Llama, FrequenciesAreDividedByTheTensorWhereTheFileHasIt) {
  const FakeBuilder g = build();
  EXPECT_EQ(first(g, TENON_OP_ROPE).weights, (std::vector<std::string>{"rope", "rope_freqs.weight"}));
  meta.tensors.erase("rope_freqs.weight");
  EXPECT_EQ(first(build(), TENON_OP_ROPE).weights, (std::vector<std::string>{"rope"}));
  meta.tensors["rope_freqs.weight"] = {31};
  EXPECT_EQ(refusal(), "tensor rope_freqs.weight: shape [31], but llama expects [32]");
}

TEST_F(Llama, PairsAreNeighboursInGgufAndHalvesElsewhere) {
  EXPECT_EQ(first(build(), TENON_OP_ROPE).as<tenon_rope_attr>().style, uint32_t{TENON_ROPE_ADJACENT});
  meta = tenon_meta::load("llama.hf.txt");
  EXPECT_EQ(first(build(), TENON_OP_ROPE).as<tenon_rope_attr>().style, uint32_t{TENON_ROPE_HALF});
}

TEST_F(Llama, HuggingFaceScalingIsComputed) {
  meta = tenon_meta::load("llama.hf.txt");
  const FakeBuilder g = build();
  const auto& inv = g.find("rope")->values;
  ASSERT_EQ(inv.size(), 32u);
  // λ = 2π / inv: below 1024 / 4 kept, above 1024 divided by 8, blended between.
  EXPECT_EQ(inv[0], 1.0f);
  EXPECT_FLOAT_EQ(inv[31], std::pow(500000.0f, -62.0f / 64) / 8);
  const float middle = std::pow(500000.0f, -20.0f / 64);  // λ = 379
  const float smooth = (1024 / (2 * 3.14159265f / middle) - 1) / 3;
  EXPECT_FLOAT_EQ(inv[10], (1 - smooth) * middle / 8 + smooth * middle);
}

TEST_F(Llama, ReadsAHuggingFaceFolderToTheSameGraph) {
  meta.tensors.erase("rope_freqs.weight");
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("llama.hf.txt");
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) {
    EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
    if (hf.nodes[i].op != TENON_OP_ROPE) {
      EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << hf.nodes[i].name;
    }
  }
}

TEST_F(Llama, YarnIsReadInBothSpellings) {
  meta.set_string("llama.rope.scaling.type", "yarn");
  meta.set_real("llama.rope.scaling.factor", 4);
  meta.set("llama.rope.scaling.original_context_length", 2048);
  const FakeBuilder gguf = build();
  EXPECT_FLOAT_EQ(first(gguf, TENON_OP_ROPE).as<tenon_rope_attr>().magnitude, 1.1386294f);
  EXPECT_FLOAT_EQ(gguf.find("rope")->values[31], std::pow(500000.0f, -62.0f / 64) / 4);
  meta.set_real("llama.rope.scaling.attn_factor", 0.5);
  EXPECT_FLOAT_EQ(first(build(), TENON_OP_ROPE).as<tenon_rope_attr>().magnitude, 0.5693147f);

  meta = tenon_meta::load("llama.hf.txt");
  meta.set_string("rope_scaling.rope_type", "yarn");
  meta.set_real("rope_scaling.factor", 4);
  meta.set("rope_scaling.original_max_position_embeddings", 2048);
  const FakeBuilder hf = build();
  EXPECT_EQ(hf.find("rope")->values, gguf.find("rope")->values);
  EXPECT_FLOAT_EQ(first(hf, TENON_OP_ROPE).as<tenon_rope_attr>().magnitude, 1.1386294f);
  meta.set_real("rope_scaling.attention_factor", 1.25);
  EXPECT_EQ(first(build(), TENON_OP_ROPE).as<tenon_rope_attr>().magnitude, 1.25f);
}

TEST_F(Llama, LinearScalingDividesEveryFrequency) {
  meta.set_string("llama.rope.scaling.type", "linear");
  meta.set_real("llama.rope.scaling.factor", 8);
  EXPECT_EQ(build().find("rope")->values[0], 0.125f);
}

TEST_F(Llama, RotatesTheColumnsThatTheFileSays) {
  meta.set("llama.rope.dimension_count", 32);
  meta.tensors.erase("rope_freqs.weight");
  const FakeBuilder g = build();
  EXPECT_EQ(first(g, TENON_OP_ROPE).as<tenon_rope_attr>().n_rot, 32u);
  EXPECT_EQ(g.find("rope")->values.size(), 16u);
}

TEST_F(Llama, BiasesAreAddedWhereTheFileHasThem) {
  add_biases();
  const FakeBuilder g = build();
  EXPECT_EQ(g.ops(0),
            "norm linear3 add add add rope rope kv_write attention linear add add norm linear2 glu linear add");
  const Recorded* bias = g.user("blk.2.attn_output.bias");
  EXPECT_EQ(g.producer(bias->in[0])->weights.at(0), "blk.2.attn_output.weight");
}

TEST_F(Llama, AWindowIsOfEveryLayer) {
  meta.set("llama.attention.sliding_window", 4096);
  for (const auto& store : build().stores) EXPECT_EQ(store.window, 4096);
}

TEST_F(Llama, HeadWidthFollowsFromTheWidthWhenNotStated) {
  meta.values.erase("llama.attention.key_length"), meta.values.erase("llama.attention.value_length");
  EXPECT_EQ(first(build(), TENON_OP_ATTENTION).as<tenon_attention_attr>().head_dim, 64u);
  meta.set("llama.attention.head_count", 3);
  meta.set("llama.attention.head_count_kv", 3);
  EXPECT_EQ(refusal(), "llama.attention.head_count: expected a divisor of 256 (the width), found 3");
}

TEST_F(Llama, RefusesRelativesThatItDoesNotCompute) {
  const auto refused = [&](const std::string& part) {
    const std::string message = refusal(TENON_UNSUPPORTED);
    EXPECT_TRUE(contains(message, part)) << message;
    meta = tenon_meta::load("llama.gguf.txt");
  };
  meta.set("llama.expert_count", 8);
  refused("llama.expert_count: expected no experts (dense models are served), found 8");
  meta.tensors["blk.0.ffn_up.bias"] = {512};
  refused("tensor blk.0.ffn_up.bias");
  meta.set_string("llama.rope.scaling.type", "longrope");
  refused("llama.rope.scaling.type: expected none, linear, yarn or llama3, found \"longrope\"");
  meta.set("llama.attention.value_length", 32);
  refused("llama.attention.value_length: expected 64 (attention.key_length), found 32");
  meta = tenon_meta::load("llama.hf.txt");
  meta.set_string("hidden_act", "gelu");
  refused("hidden_act: expected silu, found \"gelu\"");
}

TEST_F(Llama, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    double value;
    const char* message;
  } cases[] = {
      {"block_count", 0, "expected an integer from 1 to 512, found 0"},
      {"attention.head_count", 0, "expected an integer from 1 to 4096, found 0"},
      {"attention.head_count_kv", 0, "expected an integer from 1 to 4, found 0"},
      {"attention.head_count_kv", 3, "expected a divisor of 4 (attention.head_count), found 3"},
      {"attention.key_length", 63, "expected an even head width from 2 to 1024, found 63"},
      {"attention.key_length", 4096, "expected an integer from 2 to 1024, found 4096"},
      {"attention.sliding_window", 0, "expected an integer from 1"},
      {"attention.layer_norm_rms_epsilon", 0, "expected a number above 0, found 0"},
      {"rope.dimension_count", 66, "expected an integer from 2 to 64, found 66"},
      {"rope.dimension_count", 33, "expected an even number of rotary dimensions up to 64, found 33"},
      {"rope.freq_base", -1, "expected a number above 0, found -1"},
      {"feed_forward_length", 0, "expected an integer from 1"},
  };
  for (const auto& c : cases) {
    meta = tenon_meta::load("llama.gguf.txt");
    const std::string key = std::string("llama.") + c.key;
    const bool real = contains(key, "epsilon") || contains(key, "freq_base");
    real ? meta.set_real(key, c.value) : meta.set(key, static_cast<int64_t>(c.value));
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, key + ": " + c.message)) << message;
  }
  meta = tenon_meta::load("llama.gguf.txt");
  meta.set_string("llama.rope.scaling.type", "yarn");
  EXPECT_EQ(refusal(), "llama.rope.scaling.factor: expected a value (llama needs it), found no such key");
  meta.set_real("llama.rope.scaling.factor", 4);
  meta.set("llama.context_length", 0);
  EXPECT_TRUE(contains(refusal(), "llama.rope.scaling.original_context_length: YaRN needs the context"));
}

TEST_F(Llama, RefusesMissingAndMisshapenTensors) {
  meta.tensors.erase("blk.3.ffn_norm.weight");
  EXPECT_EQ(refusal(), "tensor blk.3.ffn_norm.weight: missing, but llama expects it with shape [256]");
  meta = tenon_meta::load("llama.gguf.txt");
  meta.tensors["blk.1.attn_v.weight"] = {256, 64};
  EXPECT_EQ(refusal(), "tensor blk.1.attn_v.weight: shape [256, 64], but llama expects [256, 128]");
}

TEST_F(Qwen3, NormsHeadsAndTiesTheHead) {
  const FakeBuilder g = build();
  EXPECT_EQ(g.ops(0), "norm linear3 norm norm rope rope kv_write attention linear add norm linear2 glu linear add");
  EXPECT_EQ(g.user("blk.0.attn_q_norm.weight")->as<tenon_norm_attr>().group, 128u);
  EXPECT_EQ(g.find("output.weight")->tied_to, "token_embd.weight");
  EXPECT_EQ(first(g, TENON_OP_ROPE).as<tenon_rope_attr>().style, uint32_t{TENON_ROPE_HALF});
}

TEST_F(Qwen3, ReadsAHuggingFaceFolderToTheSameGraph) {
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("qwen3.hf.txt");
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) {
    EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
    EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << hf.nodes[i].name;
  }
}

// Qwen2 is a llama with halves for pairs and biases that must be there.
TEST_F(Llama, Qwen2NeedsTheBiasesOfItsProjections) {
  tenon_meta qwen2 = meta;
  for (const auto& [key, entry] : meta.values)
    if (key.substr(0, 6) == "llama.") qwen2.values["qwen2." + key.substr(6)] = entry;
  meta = qwen2, id_ = "qwen2";
  EXPECT_EQ(refusal(),
            "12 tensors are missing, which qwen2 expects: blk.0.attn_q.bias [256], blk.0.attn_k.bias [128], "
            "blk.0.attn_v.bias [128], blk.1.attn_q.bias [256], blk.1.attn_k.bias [128], blk.1.attn_v.bias [128], "
            "blk.2.attn_q.bias [256], blk.2.attn_k.bias [128], blk.2.attn_v.bias [128], blk.3.attn_q.bias [256], "
            "blk.3.attn_k.bias [128], blk.3.attn_v.bias [128]");
  add_biases();
  const FakeBuilder g = build();
  EXPECT_EQ(g.ops(0), "norm linear3 add add add rope rope kv_write attention linear add norm linear2 glu linear add");
  EXPECT_EQ(first(g, TENON_OP_ROPE).as<tenon_rope_attr>().style, uint32_t{TENON_ROPE_HALF});
}

TEST_F(Llama, SaysWhatAGgufFileHolds) {
  const Said said(served(), tenon_meta::load("llama.hf.txt"));
  expect_says_what_a_file_does(said, meta, "llama");
  ASSERT_EQ(said.table.n_constant, 1u);
  EXPECT_EQ(text_of(said.table.constant[0].name), "rope_freqs.weight");
  EXPECT_EQ(said.table.constant[0].cols, 32);
  EXPECT_EQ(said.table.constant[0].values[0], 1.0f);   // short waves keep their length,
  EXPECT_EQ(said.table.constant[0].values[31], 8.0f);  // the longest are stretched by the factor
  const tenon_reorder* query = said.reorder("blk.{i}.attn_q.weight");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->outer, 4);
  EXPECT_EQ(query->a, 2);
  EXPECT_EQ(query->b, 32);
}

TEST_F(Qwen3, SaysWhatAGgufFileHolds) {
  const Said said(served(), tenon_meta::load("qwen3.hf.txt"));
  expect_says_what_a_file_does(said, meta, "qwen3");
  EXPECT_EQ(said.table.n_reorder, 0u);
  EXPECT_EQ(said.table.n_constant, 0u);
}

TEST_F(Qwen3, RefusesToWriteWhatGgufCannotSayYet) {
  tenon_meta config = tenon_meta::load("qwen3.hf.txt");
  config.set_string("rope_scaling.rope_type", "yarn");
  config.set_real("rope_scaling.factor", 4);
  config.set_real("rope_scaling.original_max_position_embeddings", 32768);
  const Said said(served(), config);
  EXPECT_EQ(said.status, TENON_UNSUPPORTED);
  EXPECT_TRUE(contains(said.message, "YaRN")) << said.message;
}

}  // namespace
}  // namespace tenon::test
