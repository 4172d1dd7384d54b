// Every refusal of the builder, by what it says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <tenon/error.hpp>

#include "fakes.hpp"
#include "plugin/message.hpp"
#include "program/weights.hpp"

namespace tenon::graph {
namespace {

using core_test::Builder;
using core_test::expect_in;
using core_test::FakeSource;
using core_test::str;

class BuilderTest : public ::testing::Test {
 protected:
  BuilderTest() {
    source_.add("table", 16, 8);
    source_.add("w", 1, 8);
    source_.add("m", 4, 8);
    source_.add("out", 16, 8);
  }
  Graph make(const std::function<void(const Builder&)>& body) {
    names_ = std::make_unique<NameMap>(source_, rules_);
    return core_test::build(*names_, body);
  }
  // The message with which the graph is refused, "" when it is not.
  std::string fault(const std::function<void(const Builder&)>& body, ErrorKind* kind = nullptr) {
    try {
      make(body);
    } catch (const Error& error) {
      if (kind) *kind = error.kind();
      return error.what();
    }
    return "";
  }
  // The same for a body that begins with the embedding and ends well.
  std::string fault_at(const std::function<void(const Builder&, int32_t x)>& body) {
    return fault([&](const Builder& b) {
      const int32_t x = b.embed(b.weight("table", 16, 8));
      body(b, x);
      finish(b, x);
    });
  }
  static void finish(const Builder& b, int32_t x) { b.logits(b.linear(b.select(x), {b.weight("out", 16, 8)})[0]); }

  FakeSource source_;
  std::vector<tenon_name_rule> rules_;
  std::unique_ptr<NameMap> names_;
};

TEST_F(BuilderTest, CollectsWhatIsDeclared) {
  const Graph graph = make([&](const Builder& b) {
    const int32_t table = b.weight("table", 16, 8);
    EXPECT_EQ(b.weight("table", 16, 8), table) << "the same name gives the same id";
    const int32_t x = b.embed(table);
    b.layer(0);
    b.tap(x, "hidden.0");
    const int32_t s = b.store(TENON_STORE_PAGED, 2, 8, 4, 32);
    EXPECT_EQ(s, 0);
    const int32_t y = b.norm(x, b.weight("w", 1, 8));
    EXPECT_EQ(b.tied("absent", 16, 8, "table"), table);
    EXPECT_EQ(b.table->has_weight(b.table->self, str("w")), 1);
    EXPECT_EQ(b.table->has_weight(b.table->self, str("absent")), 0);
    b.logits(b.linear(b.select(y), {table})[0], 30.0f, std::array{15, 0});
  });
  EXPECT_EQ(graph.n_layers, 1u);
  EXPECT_EQ(graph.weights.size(), 2u);
  EXPECT_EQ(graph.softcap, 30.0f);
  EXPECT_EQ(graph.never, (std::vector<int32_t>{15, 0}));
  EXPECT_EQ(graph.nodes[0].layer, kNoLayer);
  EXPECT_EQ(graph.nodes[1].layer, 0u);
  EXPECT_EQ(graph.nodes[1].name, "w");
  EXPECT_EQ(graph.stores[0].window, 32);
  EXPECT_EQ(graph.values[size_t(graph.logits)].cols, 16);
  EXPECT_EQ(graph.values[size_t(graph.logits)].domain, uint32_t(TENON_DOMAIN_OUTPUT_ROWS));
}

TEST_F(BuilderTest, ListsAllMissingWeightsInOneMessage) {
  ErrorKind kind = {};
  const std::string text = fault(
      [&](const Builder& b) {
        const int32_t x =
            b.norm(b.norm(b.embed(b.weight("table", 16, 8)), b.weight("lost.a", 1, 8)), b.weight("lost.b", 1, 8));
        finish(b, x);
      },
      &kind);
  expect_in(text, {"2 tensors are missing", "lost.a", "lost.b", "fakearch"});
  EXPECT_EQ(kind, ErrorKind::kFile);
}

TEST_F(BuilderTest, NamesTensorFoundAndExpectedShapes) {
  const std::string text = fault([&](const Builder& b) {
    const int32_t x = b.embed(b.weight("table", 16, 8));
    b.linear(x, {b.weight("m", 5, 8)});
    finish(b, x);
  });
  expect_in(text, {"tensor m: shape [8, 4]", "expects [8, 5]", "fakearch"});
}

TEST_F(BuilderTest, IntegersAreNoWeights) {
  for (const uint32_t dtype : {TENON_DTYPE_I8, TENON_DTYPE_I16, TENON_DTYPE_I32, TENON_DTYPE_I64, TENON_DTYPE_U8}) {
    const std::string name = fmt::format("n{}", dtype);
    source_.add(name, 4, 8, dtype);
    ErrorKind kind = {};
    const std::string text = fault(
        [&](const Builder& b) {
          const int32_t x = b.embed(b.weight("table", 16, 8));
          b.linear(x, {b.weight(name.c_str(), 4, 8)});
          finish(b, x);
        },
        &kind);
    expect_in(text, {("tensor " + name).c_str(), "plain integers", "fakearch"});
    EXPECT_EQ(kind, ErrorKind::kFile);
  }
}

TEST_F(BuilderTest, AVectorMayLieEitherWay) {
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t x) { b.norm(x, b.weight("w", 8, 1)); }), "");
  EXPECT_NE(fault_at([&](const Builder& b, int32_t) { b.weight("w", 2, 4); }), "");
}

TEST_F(BuilderTest, AReshapedTensorKeepsItsSize) {
  const tenon_name_rule rule = {str("flat"), str("m"), TENON_TRANSFORM_RESHAPE, 0, 8, 4};
  rules_ = {rule};
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t) { b.weight("flat", 8, 4); }), "");
  expect_in(fault_at([&](const Builder& b, int32_t) { b.weight("flat", 4, 4); }),
            {"tensor m: shape [8, 4]", "expects [4, 4]"});
}

TEST_F(BuilderTest, WeightsNeedPositiveDimensions) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{0, 8}, {-1, 8}, {16, 0}, {INT64_MAX, 8}, {16, INT64_MIN}})
    expect_in(fault_at([&](const Builder& b, int32_t) { b.weight("odd", rows, cols); }), {"weight odd", "rows of"});
}

TEST_F(BuilderTest, AWeightIsTiedToADeclaredOne) {
  expect_in(fault_at([&](const Builder& b, int32_t) { b.tied("absent", 16, 8, "later"); }),
            {"absent", "later", "not declared"});
}

TEST_F(BuilderTest, ConstantsAreNamedOnceAndNotEmpty) {
  const auto constant = [](const Builder& b, const char* name, int64_t rows, int64_t cols) {
    static const float values[8] = {};
    const int32_t id = b.table->constant(b.table->self, str(name), values, rows, cols);
    if (id < 0) throw core_test::BuildFailure{-id};
    return id;
  };
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t x) { b.norm(x, constant(b, "ones", 1, 8)); }), "");
  expect_in(fault_at([&](const Builder& b, int32_t) { constant(b, "c", 1, 8), constant(b, "c", 1, 8); }),
            {"c is declared twice"});
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 8}, {8, -1}, {INT64_MAX, 2}})
    expect_in(fault_at([&](const Builder& b, int32_t) { constant(b, "c", rows, cols); }), {"positive dimensions"});
}

TEST_F(BuilderTest, LayersCountUp) {
  expect_in(fault_at([&](const Builder& b, int32_t) { b.layer(1); }), {"layer(1) after 0 layers"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.layer(0), b.layer(0); }), {"layer(0) after 1 layers"});
}

TEST_F(BuilderTest, AttributesHaveTheirSize) {
  tenon_norm_attr attr = {sizeof attr - 4, TENON_NORM_RMS, 1e-6f, 0};
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_NORM, &attr, {x}); }),
            {"norm", "12 bytes", "expected 16"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_NORM, nullptr, {x}); }),
            {"norm needs its attributes"});
}

TEST_F(BuilderTest, OpsAreThoseItServesWithTheirOperands) {
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(9999, nullptr, {x}); }), {"op 9999", "not served"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_SAMPLE, nullptr, {x}); }), {"sample", "not served"});
  const tenon_encode_attr encode = {sizeof encode, TENON_ENC_Q8_32};
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ENCODE, &encode, {x}); }),
            {"encode", "not served"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_ADD, nullptr, {x, x, x});
            }),
            {"add takes no 3 inputs"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_ADD, nullptr, {x, x}, {}, {}, 2);
            }),
            {"gives 1 values, 2 asked"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.linear(x, {}); }), {"linear takes no 1 inputs, 0 weights"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.add(x, 999); }), {"add: input 1 does not exist"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.add(x, -1); }), {"add: input 1 does not exist"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.linear(x, {77}); }), {"linear: weight 0 does not exist"});
  const tenon_attention_attr attention = {sizeof attention, 1, 1, 8, 8, 0, 1.0f, 0, 0, 0};
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ATTENTION, &attention, {x}, {}, {3}); }),
            {"store 0 does not exist"});
}

TEST_F(BuilderTest, TypesMustFit) {
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.linear(b.view(x, 0, 4), {b.weight("m", 4, 8)}); }),
            {"m", "has 8 columns, its input 4"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.add(x, b.view(x, 0, 4)); }), {"add", "8 and 4 columns"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.add(x, b.select(x)); }), {"add", "different rows"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.norm(x, b.weight("w", 1, 8), 4); }),
            {"w has 8 entries, expected 4"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.norm(x, -1, 3); }), {"norm", "8 columns", "group 3"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.norm(b.tokens(), -1); }), {"input 0 is not f32"});
  const tenon_embed_attr embed = {sizeof embed, 1.0f};
  expect_in(
      fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_EMBED, &embed, {x}, {b.weight("table", 16, 8)}); }),
      {"token ids"});
  const tenon_gate_attr gate = {sizeof gate, TENON_ACT_SILU, 4, 0};
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_GATE, &gate, {x, x});
            }),
            {"8 gates of 4 columns", "8 columns"});
  const tenon_rope_attr rope = {sizeof rope, TENON_ROPE_HALF, 8, 10, {}, 1.0f, 0};
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ROPE, &rope, {x}, {b.weight("w", 1, 8)}); }),
            {"10 rotary columns"});
}

TEST_F(BuilderTest, AddTakesTwoValuesOrAValueAndABias) {
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ADD, nullptr, {x}); }),
            {"two inputs, or an input and a weight"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_ADD, nullptr, {x, x}, {b.weight("w", 1, 8)});
            }),
            {"two inputs, or an input and a weight"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ADD, nullptr, {x}, {b.weight("m", 4, 8)}); }),
            {"m has 32 entries, expected 8"});
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ADD, nullptr, {x}, {b.weight("w", 1, 8)}); }),
            "");
}

TEST_F(BuilderTest, AnAliasIsTheStoreThatItNamesAndHasItsShape) {
  tenon_store_decl decl = {};
  decl.struct_size = sizeof decl, decl.kind = TENON_STORE_PAGED, decl.alias = 0, decl.heads = 2;
  decl.cols_k = decl.cols_v = 8, decl.window = 32;
  const auto alias = [&](const Builder& b) {
    b.store(TENON_STORE_PAGED, 2, 8, 8, 32);
    const int32_t id = b.table->store(b.table->self, &decl);
    if (id < 0) throw core_test::BuildFailure{-id};
    return id;
  };
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t) { EXPECT_EQ(alias(b), 0); }), "");
  decl.window = 0;
  expect_in(fault_at([&](const Builder& b, int32_t) { alias(b); }), {"alias of 2 heads", "window 0", "store 0"});
  decl.window = 32, decl.cols_v = 4;
  expect_in(fault_at([&](const Builder& b, int32_t) { alias(b); }), {"8 and 4 columns"});
  decl.alias = 5;
  expect_in(fault_at([&](const Builder& b, int32_t) { alias(b); }), {"alias 5 does not exist"});
}

class DividedTest : public BuilderTest {
 protected:
  static int32_t inverse(const Builder& b, const char* name) {
    static const float values[4] = {8, 4, 2, 1};
    return b.table->constant(b.table->self, str(name), values, 1, 4);
  }
  // Two rotations whose frequencies are divided by the tensor `name` of n entries.
  static void rotate(const Builder& b, int32_t x, const char* name, int64_t n) {
    const tenon_rope_attr rope = {sizeof rope, TENON_ROPE_HALF, 8, 8, {}, 1.0f, 0};
    const int32_t table = inverse(b, "inv");
    for (int i = 0; i < 2; ++i) x = b.op(TENON_OP_ROPE, &rope, {x}, {table, b.weight(name, 1, n)})[0];
    finish(b, x);
  }
  Graph rotated(const char* name, int64_t n) {
    return make([&](const Builder& b) { rotate(b, b.embed(b.weight("table", 16, 8)), name, n); });
  }
};

TEST_F(DividedTest, RotationsShareOneTableThatIsDividedWhenLoaded) {
  source_.add("divisor", 1, 8, {1, 2, 4, 1e30f, 5, 5, 5, 5});
  const Graph graph = rotated("divisor", 8);
  std::vector<int32_t> tables;
  for (const Node& node : graph.nodes)
    if (node.op == TENON_OP_ROPE) tables.insert(tables.end(), node.weight.begin(), node.weight.end());
  ASSERT_EQ(tables.size(), 2u) << "a kernel sees one weight";
  EXPECT_EQ(tables[0], tables[1]);
  core_test::FakeDevice device;
  const program::WeightSet weights(graph, *names_, plugin::Registry(), device.device());
  const tenon_weight found = weights.resolved(tables[0], 0);
  EXPECT_EQ(found.dtype, uint32_t(TENON_DTYPE_F32));
  const auto* values = reinterpret_cast<const float*>(found.plane[0]);
  EXPECT_EQ(std::vector<float>(values, values + found.cols), (std::vector<float>{8, 2, 0.5f, 1 / 1e30f}));
}

TEST_F(DividedTest, ADivisorHasAnEntryAPairAndIsATensor) {
  source_.add("short", 1, 3);
  expect_in(fault([&](const Builder& b) { rotate(b, b.embed(b.weight("table", 16, 8)), "short", 3); }),
            {"short has 3 entries, expected 4 or more"});
  const tenon_rope_attr rope = {sizeof rope, TENON_ROPE_HALF, 8, 8, {}, 1.0f, 0};
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_ROPE, &rope, {x}, {inverse(b, "a"), inverse(b, "b")});
            }),
            {"a divisor is a tensor"});
}

TEST_F(DividedTest, ADivisorThatIsNoPositiveNumberIsAFaultOfTheFile) {
  const float bad[] = {0, -1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i < std::size(bad); ++i) {
    const std::string name = "divisor" + std::to_string(i);
    source_.add(name, 1, 4, {1, 1, bad[i], 1});
    const Graph graph = rotated(name.c_str(), 4);
    core_test::FakeDevice device;
    try {
      const program::WeightSet weights(graph, *names_, plugin::Registry(), device.device());
      ADD_FAILURE() << bad[i] << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFile);
      expect_in(error.what(), {name.c_str(), "entry 2", "expected a finite number above 0"});
    }
  }
}

TEST_F(BuilderTest, StoresMustFitTheirOps) {
  const tenon_kv_write_attr write = {sizeof write, 2, 4, 4};
  const tenon_attention_attr attention = {sizeof attention, 2, 2, 4, 4, 0, 1.0f, 0, 0, 0};
  tenon_attention_attr wide = attention, narrow = attention;
  wide.window = 33, narrow.window = 20;
  const auto paged = [](const Builder& b, int32_t window = 0) { return b.store(TENON_STORE_PAGED, 2, 8, 8, window); };
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t x) {
              const int32_t s = paged(b);
              b.op(TENON_OP_KV_WRITE, &write, {x, x}, {}, {s}, 0);
              b.op(TENON_OP_ATTENTION, &attention, {x}, {}, {s});
            }),
            "");
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_KV_WRITE, &write, {x, x}, {}, {b.store(TENON_STORE_PAGED, 2, 4, 8)}, 0);
            }),
            {"k and v have 8 and 8 columns, the store 4 and 8"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_KV_WRITE, &write, {x, x}, {}, {b.store(TENON_STORE_CONV, 0, 8, 3)}, 0);
            }),
            {"needs a paged or a latent store"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_KV_WRITE, &write, {x}, {}, {paged(b)}, 0); }),
            {"kv_write: 1 inputs, expected k and v"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_ATTENTION, &attention, {x}, {}, {b.store(TENON_STORE_PAGED, 1, 8, 8)});
            }),
            {"do not fit the store"});
  // Keys before the store's window may be gone.
  EXPECT_EQ(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ATTENTION, &narrow, {x}, {}, {paged(b, 32)}); }),
            "");
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ATTENTION, &wide, {x}, {}, {paged(b, 32)}); }),
            {"window of 33", "keeps 32 tokens"});
  expect_in(
      fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_ATTENTION, &attention, {x}, {}, {paged(b, 32)}); }),
      {"window of 0", "keeps 32 tokens"});
}

TEST_F(BuilderTest, ALatentStoreHasOneRowATokenForAllHeads) {
  const auto latent = [](const Builder& b) { return b.store(TENON_STORE_LATENT, 1, 8, 0); };
  const tenon_kv_write_attr write = {sizeof write, 1, 8, 0};
  tenon_latent_attention_attr attention = {sizeof attention, 3, 6, 2, 1.0f, 0};
  const auto attend = [&](const Builder& b, int32_t q, int32_t s) {
    return b.op(TENON_OP_LATENT_ATTENTION, &attention, {q}, {}, {s})[0];
  };
  const Graph graph = make([&](const Builder& b) {
    const int32_t x = b.embed(b.weight("table", 16, 8)), s = latent(b);
    b.op(TENON_OP_KV_WRITE, &write, {x}, {}, {s}, 0);
    const int32_t two = b.op(TENON_OP_CONCAT, nullptr, {x, x})[0];
    finish(b, b.view(attend(b, b.op(TENON_OP_CONCAT, nullptr, {two, x})[0], s), 0, 8));
  });
  const auto& node = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const Node& n) { return n.op == TENON_OP_LATENT_ATTENTION; });
  EXPECT_EQ(graph.values[size_t(node.out[0])].cols, 3 * 6);

  expect_in(fault_at([&](const Builder& b, int32_t x) { attend(b, x, latent(b)); }),
            {"q has 8 columns, expected 3 heads of 8"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { attend(b, x, b.store(TENON_STORE_PAGED, 1, 8, 8)); }),
            {"latent_attention needs a latent store"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { attend(b, x, b.store(TENON_STORE_LATENT, 1, 9, 0)); }),
            {"a rank of 6 and 2 rotary columns over a store of 9"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.op(TENON_OP_KV_WRITE, &write, {x, x}, {}, {latent(b)}, 0); }),
            {"kv_write: 2 inputs, expected the rows of a latent store"});
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_KV_WRITE, &write, {b.view(x, 0, 4)}, {}, {latent(b)}, 0);
            }),
            {"have 4 and 0 columns, the store 8 and 0"});
  attention.heads = 0;
  expect_in(fault_at([&](const Builder& b, int32_t x) { attend(b, x, latent(b)); }), {"0 heads of rank 6"});
  for (const auto& [heads, values, window] : {std::tuple{2u, 0, 0}, {1u, 8, 0}, {1u, 0, 32}})
    expect_in(fault_at([&, heads = heads, values = values, window = window](const Builder& b, int32_t) {
                b.store(TENON_STORE_LATENT, heads, 8, values, window);
              }),
              {"a latent store of", "one row a token"});
}

TEST_F(BuilderTest, StoresAreOfAKnownKindAndSize) {
  expect_in(fault_at([&](const Builder& b, int32_t) { b.store(77, 1, 8, 8); }), {"store kind 77"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.store(TENON_STORE_PAGED, 1, 0, 8); }), {"positive widths"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.store(TENON_STORE_PAGED, 1, 8, 8, -1); }), {"positive widths"});
  tenon_store_decl alias = {};
  alias.struct_size = sizeof alias, alias.alias = 5;
  expect_in(fault_at([&](const Builder& b, int32_t) {
              const int32_t id = b.table->store(b.table->self, &alias);
              throw core_test::BuildFailure{id < 0 ? -id : TENON_INTERNAL};
            }),
            {"store alias 5 does not exist"});
}

TEST_F(BuilderTest, ViewsLieInsideAPlainValue) {
  const auto fault_of_view = [&](int64_t col0, int64_t cols, int64_t groups, int64_t step) {
    return fault_at([&](const Builder& b, int32_t x) {
      const int32_t id = b.table->view(b.table->self, x, col0, cols, groups, step);
      if (id < 0) throw core_test::BuildFailure{-id};
    });
  };
  EXPECT_EQ(fault_of_view(0, 8, 1, 8), "");
  EXPECT_EQ(fault_of_view(2, 4, 2, 4), "");
  EXPECT_EQ(fault_of_view(6, 2, 1, 0), "");
  expect_in(fault_of_view(1, 8, 1, 8), {"view of 8 columns from 1", "leaves the 8 columns"});
  expect_in(fault_of_view(2, 4, 2, 5), {"leaves the 8 columns"});
  expect_in(fault_of_view(0, 4, 2, 1), {"leaves the 8 columns"});
  expect_in(fault_of_view(INT64_MAX, 4, 2, 4), {"view of"});
  expect_in(fault_of_view(0, 4, 2, INT64_MAX), {"view of"});
  expect_in(fault_of_view(-1, 4, 1, 4), {"view of"});
  expect_in(fault_of_view(0, 0, 1, 4), {"view of"});
  expect_in(fault_of_view(0, 5, 2, 4), {"view of"});
  expect_in(fault_of_view(0, 4, 0, 4), {"view of"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.view(b.view(x, 0, 4), 0, 2); }), {"view of a view"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.view(99, 0, 2); }), {"view of value 99"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.view(b.tokens(), 0, 1); }), {"not f32"});
}

TEST_F(BuilderTest, TapsAreNamedOnceAndOfStoredValues) {
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.tap(x, "hidden.0"), b.tap(x, "hidden.0"); }),
            {"hidden.0", "twice"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.tap(1234, "hidden.0"); }), {"tap of value 1234"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.tap(b.view(x, 0, 4), "hidden.0"); }), {"hidden.0", "view"});
}

TEST_F(BuilderTest, LogitsStandAtTheEnd) {
  ErrorKind kind = {};
  expect_in(fault([&](const Builder& b) { b.embed(b.weight("table", 16, 8)); }, &kind), {"fakearch", "no logits"});
  expect_in(fault([&](const Builder& b) { b.logits(b.embed(b.weight("table", 16, 8))); }), {"must follow select_rows"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { finish(b, x); }), {"logits are given twice"});
  expect_in(fault_at([&](const Builder& b, int32_t) { b.logits(-3); }), {"does not exist"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.logits(b.view(b.select(x), 0, 4)); }), {"logits of a view"});
  expect_in(fault_at([&](const Builder& b, int32_t x) { b.logits(b.select(x), -1.0f); }), {"softcap"});
  expect_in(
      fault_at([&](const Builder& b, int32_t x) { b.logits(b.select(x), std::numeric_limits<float>::infinity()); }),
      {"softcap"});
  for (const int32_t id : {-1, 8})
    expect_in(fault_at([&](const Builder& b, int32_t x) { b.logits(b.select(x), 0, std::array{0, id}); }),
              {"never to be sampled", "ids 0 to 7"});
}

TEST_F(BuilderTest, OnlyTokensComeIn) {
  const auto refusal = [&](uint32_t what) {
    return fault_at([&](const Builder& b, int32_t) {
      const int32_t id = b.table->input(b.table->self, what);
      if (id < 0) throw core_test::BuildFailure{-id};
    });
  };
  expect_in(refusal(99u), {"input", "not served"});
  expect_in(refusal(TENON_INPUT_HIDDEN), {"hidden rows are an input of drafts"});
}

// An architecture that takes rows in place of embeddings costs nothing where nobody gives any.
TEST_F(BuilderTest, OverlayRowsAndSpansAreThereIfAskedFor) {
  const auto body = [&](const Builder& b) {
    const int32_t overlay = b.table->input(b.table->self, TENON_INPUT_OVERLAY);
    EXPECT_EQ(b.table->input(b.table->self, TENON_INPUT_OVERLAY), overlay) << "there is one";
    const tenon_embed_attr embed = {sizeof embed, 2};
    const int32_t x = b.op(TENON_OP_EMBED, &embed, {b.tokens(), overlay}, {b.weight("table", 16, 8)})[0];
    tenon_attention_attr attention = {};
    attention.struct_size = sizeof attention, attention.heads = 1, attention.kv_heads = 1;
    attention.head_dim = attention.head_dim_v = 8, attention.scale = 1, attention.span_mask = 1;
    b.layer(0);
    finish(b, b.op(TENON_OP_ATTENTION, &attention, {x}, {}, {b.store(TENON_STORE_PAGED, 1, 8, 8)})[0]);
  };
  const auto node = [](const Graph& graph, uint32_t op) {
    return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& one) { return one.op == op; });
  };
  const NameMap names(source_, rules_);
  const Graph plain = core_test::build(names, body), with = core_test::build(names, body, nullptr, true);
  EXPECT_EQ(node(plain, TENON_OP_EMBED).in.size(), 1u);
  EXPECT_EQ(node(plain, TENON_OP_ATTENTION).attr_as<tenon_attention_attr>().span_mask, 0u);
  EXPECT_EQ(plain.overlay, -1);
  EXPECT_FALSE(plain.sees_spans);
  ASSERT_EQ(node(with, TENON_OP_EMBED).in.size(), 2u);
  EXPECT_EQ(node(with, TENON_OP_EMBED).in[1], with.overlay);
  EXPECT_EQ(node(with, TENON_OP_ATTENTION).attr_as<tenon_attention_attr>().span_mask, 1u);
  EXPECT_EQ(with.values[size_t(with.overlay)].cols, 8);
  EXPECT_TRUE(with.sees_spans);
  const tenon_embed_attr embed = {sizeof embed, 1};
  expect_in(fault_at([&](const Builder& b, int32_t x) {
              b.op(TENON_OP_EMBED, &embed, {b.tokens(), x}, {b.weight("table", 16, 8)});
            }),
            {"the second input must be the overlay"});
  expect_in(fault_at([&](const Builder& b, int32_t) {
              const int32_t overlay = b.table->input(b.table->self, TENON_INPUT_OVERLAY);
              b.op(TENON_OP_EMBED, &embed, {b.tokens(), overlay}, {b.weight("table", 16, 8)});
              b.op(TENON_OP_EMBED, &embed, {b.tokens(), overlay}, {b.weight("wide", 16, 12)});
            }),
            {"an overlay of 8 columns over a table of 12"});
}

TEST_F(BuilderTest, AnArchitecturesOwnFailureKeepsItsMessage) {
  ErrorKind kind = {};
  expect_in(fault(
                [&](const Builder&) {
                  plugin::set_message(TENON_CORRUPT, "key x.y: expected 3, found 4");
                  throw core_test::BuildFailure{TENON_CORRUPT};
                },
                &kind),
            {"fakearch", "key x.y: expected 3, found 4"});
  EXPECT_EQ(kind, ErrorKind::kFile);
}

}  // namespace
}  // namespace tenon::graph
