// step35_test.cpp: step35 from its metadata to its graph, and what bad metadata is told.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_builder.hpp"
#include "written.hpp"

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

const tenon_architecture* step35() {
  static const tenon_architecture* found = architecture(tenon_plugin_entry(), "step35");
  return found;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Step35 : public ::testing::Test {
 protected:
  tenon_meta meta = tenon_meta::load("step35.gguf.txt");
  void reload() { meta = tenon_meta::load("step35.gguf.txt"); }
  tenon_limits limits() {
    Configured model(step35(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    tenon_limits out = {};
    if (model.status == TENON_OK) {
      EXPECT_EQ(step35()->limits(model.model, &out), TENON_OK);
    }
    return out;
  }
  FakeBuilder build(const std::string& entry = "main") {
    Configured model(step35(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    FakeBuilder builder(&meta);
    builder.hidden_width = 256;
    builder.target_weights = {
        {"token_embd.weight", {1024, 256}}, {"output.weight", {1024, 256}}, {"output_norm.weight", {1, 256}}};
    if (model.status == TENON_OK) {
      EXPECT_EQ(step35()->build(model.model, {entry.data(), entry.size()}, builder.table()), TENON_OK)
          << take_message();
    }
    return builder;
  }
  std::string entries() {
    std::string names;
    Configured model(step35(), meta);
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    tenon_limits out = {};
    if (model.status == TENON_OK && step35()->limits(model.model, &out) == TENON_OK)
      for (uint32_t i = 0; i < out.n_entry; ++i)
        names += (i ? " " : "") + std::string(out.entries[i].data, out.entries[i].size);
    return names;
  }
  // Three draft blocks, as released models have.
  void add_drafts() {
    std::map<std::string, std::vector<int64_t>> more;
    for (const auto& [name, dims] : meta.tensors)
      if (name.substr(0, 6) == "blk.5.")
        for (const char* block : {"blk.6.", "blk.7."}) more[block + name.substr(6)] = {dims.begin(), dims.end()};
    for (const auto& [name, dims] : more) meta.tensors[name] = {dims.begin(), dims.end()};
    meta.set("step35.block_count", 8), meta.set("step35.nextn_predict_layers", 3);
  }
  std::string refusal(tenon_status status = TENON_CORRUPT) {
    Configured model(step35(), meta);
    EXPECT_EQ(model.status, status) << model.message;
    return model.message;
  }
  void drop_tensors(const std::string& prefix) {
    std::erase_if(meta.tensors, [&](const auto& entry) { return entry.first.substr(0, prefix.size()) == prefix; });
  }
};

TEST_F(Step35, ADraftIsALayerOfItsOwnGeometryWithItsOwnHead) {
  EXPECT_EQ(limits().n_layer, 5u);
  EXPECT_EQ(limits().n_draft_unused, 0u);
  EXPECT_EQ(entries(), "main draft.0");
  meta.set_array("step35.swiglu_clamp_shexp", TENON_VALUE_F32, {0, 0, 0, 0, 2, 3});
  const FakeBuilder g = build("draft.0");
  EXPECT_EQ(g.ops(-1), "embed norm norm concat linear");
  EXPECT_EQ(g.ops(0),
            "norm linear4 norm rope norm rope kv_write attention gate linear add norm linear2 glu linear add "
            "select norm linear");
  EXPECT_EQ(g.nodes.at(0).weights, (std::vector<std::string>{"target:token_embd.weight"}));
  for (const Recorded& node : g.nodes) {
    if (node.op == TENON_OP_ATTENTION) {
      EXPECT_EQ(node.as<tenon_attention_attr>().heads, 6u);
      EXPECT_EQ(node.as<tenon_attention_attr>().window, 32);
    }
    if (node.op == TENON_OP_ROPE) {
      EXPECT_EQ(node.weights, (std::vector<std::string>{"rope.local"}));
    }
    if (node.op == TENON_OP_GLU) {
      EXPECT_EQ(node.as<tenon_glu_attr>().limit, 3.0f);  // that of shared experts
    }
  }
  const Recorded* head = g.producer(g.logits_value);
  EXPECT_EQ(head->weights, (std::vector<std::string>{"blk.5.nextn.shared_head_head.weight"}));
  // What the next draft reads comes before the norm, as from the trunk.
  const Recorded* norm = g.user("blk.5.nextn.shared_head_norm.weight");
  EXPECT_EQ(g.producer(norm->in[0])->in[0], g.taps.at("draft.hidden"));
  const FakeBuilder main = build();
  EXPECT_EQ(main.producer(main.user("output_norm.weight")->in[0])->in[0], main.taps.at("draft.hidden"));
}

TEST_F(Step35, EachDraftBlockHasAnEntryAndItsOwnWeights) {
  add_drafts();
  // A list that stops before a block says nothing of it, and no other layer stands in.
  EXPECT_EQ(entries(), "main draft.0");
  EXPECT_EQ(limits().n_draft_unused, 2u);
  meta.set_array("step35.attention.head_count", TENON_VALUE_U32, {4, 6, 6, 6, 4, 6, 6, 6});
  meta.set_array("step35.attention.head_count_kv", TENON_VALUE_U32, {2, 2, 2, 2, 2, 2, 2, 2});
  meta.set_array("step35.attention.sliding_window_pattern", TENON_VALUE_BOOL, {0, 1, 1, 1, 0, 1, 1, 1});
  EXPECT_EQ(entries(), "main draft.0 draft.1 draft.2");
  EXPECT_EQ(limits().n_draft_unused, 0u);
  const FakeBuilder g = build("draft.2");
  EXPECT_NE(g.user("blk.7.nextn.shared_head_head.weight"), nullptr);
  for (const auto& weight : g.weights)
    EXPECT_TRUE(contains(weight.name, "blk.7.") || contains(weight.name, "target:") || weight.name == "rope.local")
        << weight.name;
}

TEST_F(Step35, ASplitExportHasTheTrunkAndItsDraftsInFilesOfTheirOwn) {
  const tenon_meta whole = meta;
  // A trunk alone announces drafts all the same, or does not.
  drop_tensors("blk.5.");
  EXPECT_EQ(entries(), "main");
  EXPECT_EQ(limits().n_draft_absent, 1u);
  meta.set("step35.block_count", 5), meta.set("step35.nextn_predict_layers", 0);
  EXPECT_EQ(limits().n_layer, 5u);  // the lists still have six entries
  EXPECT_EQ(limits().n_draft_absent, 0u);
  meta = whole;
  for (int i = 0; i < 5; ++i) drop_tensors("blk." + std::to_string(i) + ".");
  EXPECT_EQ(entries(), "draft.0");
  EXPECT_EQ(build("draft.0").ops(-1), "embed norm norm concat linear");
  meta.tensors.erase("token_embd.weight");
  EXPECT_EQ(limits().vocab, 0);  // not said
  meta.set_array("step35.attention.head_count", TENON_VALUE_U32, {4, 6, 6, 6, 4});
  EXPECT_TRUE(contains(refusal(), "expected entries for draft blocks as well, found 5"));
}

TEST_F(Step35, LayersHaveTheirOwnHeadCountsWindowsAndParts) {
  const FakeBuilder g = build();
  const std::string attention = "norm linear4 norm rope norm rope kv_write attention gate linear add norm ";
  for (int i : {0, 1}) EXPECT_EQ(g.ops(i), attention + "linear2 glu linear add") << i;
  for (int i : {2, 3}) EXPECT_EQ(g.ops(i), attention + "linear route expert linear2 glu linear add add") << i;
  int layer = 0;
  for (const Recorded& node : g.nodes) {
    if (node.op == TENON_OP_ATTENTION) {
      const auto a = node.as<tenon_attention_attr>();
      const bool full = layer % 4 == 0;
      EXPECT_EQ(a.heads, full ? 4u : 6u);
      EXPECT_EQ(a.kv_heads, 2u);
      EXPECT_EQ(a.window, full ? 0 : 32);
      EXPECT_EQ(a.scale, 0.125f);
      ++layer;
    }
    if (node.op == TENON_OP_GATE) {
      EXPECT_EQ(node.as<tenon_gate_attr>().group, 64u);
      EXPECT_EQ(node.as<tenon_gate_attr>().activation, uint32_t{TENON_ACT_SIGMOID});
      EXPECT_EQ(g.producer(node.in[1])->weights.at(0).substr(6), "attn_q.weight")
          << "the gate comes from the normed input";
    }
  }
  EXPECT_EQ(layer, 5);
}

TEST_F(Step35, GlobalLayersTurnHalfOfEachHead) {
  meta.tensors["rope_freqs.weight"] = {32};
  const FakeBuilder g = build();
  for (const Recorded& node : g.nodes) {
    if (node.op != TENON_OP_ROPE) continue;
    const bool full = node.layer % 4 == 0;
    EXPECT_EQ(node.as<tenon_rope_attr>().n_rot, full ? 32u : 64u);
    EXPECT_EQ(node.weights, full ? (std::vector<std::string>{"rope.global", "rope_freqs.weight"})
                                 : (std::vector<std::string>{"rope.local"}));
  }
  EXPECT_EQ(g.find("rope.global")->values[8], 1.0f / std::pow(5e6f, 0.5f));
  EXPECT_EQ(g.find("rope.local")->values[16], 1.0f / std::pow(1e4f, 0.5f));
}

TEST_F(Step35, RoutesBySigmoidWithABiasAndAScale) {
  const FakeBuilder g = build();
  const Recorded* bias = g.user("blk.2.exp_probs_b.bias");
  ASSERT_EQ(bias->name, "route");
  const auto route = bias->as<tenon_route_attr>();
  EXPECT_EQ(route.top_k, 2u);
  EXPECT_EQ(route.gating, 1u);
  EXPECT_EQ(route.normalize, 1u);
  EXPECT_EQ(route.scale, 1.5f);
}

TEST_F(Step35, LimitsAreOfRoutedAndOfSharedExpertsApart) {
  meta.set_array("step35.swiglu_clamp_shexp", TENON_VALUE_F32, {0, 3, 0, 1e-7, 2, 0});
  const FakeBuilder g = build();
  for (const Recorded& node : g.nodes) {
    if (node.op == TENON_OP_EXPERT_FFN) {
      EXPECT_EQ(node.as<tenon_expert_ffn_attr>().limit, node.layer == 4 ? 1.0f : 0.0f);
    }
    if (node.op == TENON_OP_GLU) {
      EXPECT_EQ(node.as<tenon_glu_attr>().limit, node.layer == 4 ? 2.0f : node.layer == 1 ? 3.0f : 0.0f) << node.layer;
    }
  }
}

TEST_F(Step35, ReadsAHuggingFaceFolderToTheSameGraph) {
  const FakeBuilder gguf = build();
  meta = tenon_meta::load("step35.hf.txt");
  const FakeBuilder hf = build();
  ASSERT_EQ(hf.nodes.size(), gguf.nodes.size());
  for (size_t i = 0; i < hf.nodes.size(); ++i) {
    EXPECT_EQ(hf.nodes[i].weights, gguf.nodes[i].weights) << i;
    EXPECT_EQ(hf.nodes[i].attr, gguf.nodes[i].attr) << i << hf.nodes[i].name;
  }
  EXPECT_EQ(entries(), "main draft.0");
  const FakeBuilder draft = build("draft.0");
  reload();
  const FakeBuilder same = build("draft.0");
  ASSERT_EQ(draft.nodes.size(), same.nodes.size());
  // Whether norm and head are its own is asked by canonical names, which a folder's list has not.
  for (size_t i = 0; i + 2 < draft.nodes.size(); ++i) EXPECT_EQ(draft.nodes[i].weights, same.nodes[i].weights) << i;
  meta = tenon_meta::load("step35.hf.txt");
  meta.set_string("moe_layers_enum", "2,3,9");
  EXPECT_TRUE(contains(refusal(), "moe_layers_enum: expected layers from 0 to 4, found 9"));
  meta.set_string("moe_layers_enum", "2;3");
  EXPECT_TRUE(contains(refusal(), "moe_layers_enum: expected numbers with commas between"));
}

TEST_F(Step35, RefusesBadParametersByKey) {
  const struct {
    const char* key;
    double value;
    const char* message;
  } cases[] = {
      {"block_count", 0, "block_count: expected an integer from 1 to 512, found 0"},
      {"nextn_predict_layers", 6, "nextn_predict_layers: expected fewer than 6 (block_count), found 6"},
      {"attention.head_count", 0, "attention.head_count: expected 1 to 4096 heads in layer 0, found 0"},
      {"attention.head_count_kv", 5, "attention.head_count_kv: expected a divisor of 4"},
      {"attention.key_length", 0, "attention.key_length: expected an integer from 2 to 1024, found 0"},
      {"attention.sliding_window", 0, "attention.sliding_window: expected an integer from 1"},
      {"attention.sliding_window", 4e9, "attention.sliding_window: expected an integer from 1"},
      {"rope.dimension_count", 62,
       "rope.dimension_count: expected an even number of rotary dimensions up to 64, found 31"},
      {"expert_used_count", 7, "expert_used_count: expected an integer from 1 to 6, found 7"},
      {"expert_count", 0, "expert_count: expected an integer from 1"},
      {"leading_dense_block_count", 6, "leading_dense_block_count: expected an integer from 0 to 5, found 6"},
  };
  for (const auto& c : cases) {
    reload();
    meta.set(std::string("step35.") + c.key, static_cast<int64_t>(c.value));
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, std::string("step35.") + c.message)) << message;
  }
  const std::pair<const char*, int64_t> variants[] = {
      {"step35.expert_gating_func", 1}, {"step35.moe_every_n_layers", 2}, {"step35.attention.value_length", 32}};
  for (const auto& [key, value] : variants) {
    reload();
    meta.set(key, value);
    EXPECT_TRUE(contains(refusal(TENON_UNSUPPORTED), std::string(key) + ": expected"));
  }
}

TEST_F(Step35, RefusesListsThatAreTooShortOrHoldNonsense) {
  const auto refused = [&](const char* key, uint32_t element, std::vector<double> values, const std::string& message) {
    reload();
    meta.set_array(key, element, std::move(values));
    const std::string found = refusal();
    EXPECT_TRUE(contains(found, key + message)) << found;
  };
  refused("step35.attention.head_count", TENON_VALUE_I32, {4, 6, 6}, ": expected 6 entries (one a block), found 3");
  refused("step35.attention.head_count", TENON_VALUE_I32, {4, 6, 0, 6, 4, 6},
          ": expected 1 to 4096 heads in layer 2, found 0");
  refused("step35.attention.sliding_window_pattern", TENON_VALUE_BOOL, {0, 1},
          ": expected 6 entries (one a block), found 2");
  refused("step35.swiglu_clamp_exp", TENON_VALUE_F32, {1}, ": expected 6 entries (one a block), found 1");
  refused("step35.swiglu_clamp_exp", TENON_VALUE_F32, {0, 0, 0, -1, 0, 0}, ": expected 0 or more in layer 3, found -1");
}

TEST_F(Step35, RefusesMissingAndMisshapenTensors) {
  meta.tensors.erase("blk.3.exp_probs_b.bias");
  EXPECT_EQ(refusal(), "tensor blk.3.exp_probs_b.bias: missing, but step35 expects it with shape [6]");
  reload();
  meta.tensors["blk.1.attn_gate.weight"] = {256, 4};
  EXPECT_EQ(refusal(), "tensor blk.1.attn_gate.weight: shape [256, 4], but step35 expects [256, 6] (one gate a head)");
  reload();
  meta.tensors.erase("output.weight");
  EXPECT_EQ(refusal(), "tensor output.weight: missing, but step35 expects it with shape [256, 1024]");
}

// Draft blocks are not written, so lists are shorter by them.
TEST_F(Step35, SaysWhatAGgufFileHolds) {
  tenon_meta config = tenon_meta::load("step35.hf.txt");
  const Said said(step35(), config);
  expect_says_what_a_file_does(said, meta, "step35",
                               {"block_count", "nextn_predict_layers", "attention.head_count", "attention.head_count_kv",
                                "attention.sliding_window_pattern", "swiglu_clamp_exp", "swiglu_clamp_shexp"});
  EXPECT_EQ(said.table.n_constant, 0u);
  config.set("use_moe_router_bias", 0);
  const Said other(step35(), config);
  EXPECT_EQ(other.status, TENON_UNSUPPORTED);
  EXPECT_TRUE(contains(other.message, "bias")) << other.message;
}

}  // namespace
}  // namespace tenon::test
