// What a draft's graph shares with the model's, and every refusal of it.
#include <gtest/gtest.h>

#include <tenon/error.hpp>

#include "fakes.hpp"
#include "plugin/registry.hpp"
#include "program/weights.hpp"

namespace tenon::graph {
namespace {

using core_test::Builder;
using core_test::expect_in;
using core_test::FakeSource;
using core_test::str;

// A model of width 8 with 16 tokens, and a draft in the same file or in one of its own.
class DraftBuilderTest : public ::testing::Test {
 protected:
  DraftBuilderTest() {
    main_ = core_test::build(names_, [](const Builder& b) {
      const int32_t x = b.embed(b.weight("table", 16, 8));
      for (const int32_t window : {0, 32, 32}) add_store(b, window ? "local" : "global", "", window);
      b.tied("tied", 16, 8, "table");
      b.logits(b.linear(b.select(x), {b.weight("out", 16, 8)})[0]);
    });
  }

  static int32_t add_store(const Builder& b, const char* role, const char* target, int32_t window) {
    tenon_store_decl decl = {};
    decl.struct_size = sizeof decl, decl.kind = TENON_STORE_PAGED, decl.alias = -1, decl.heads = 2;
    decl.cols_k = decl.cols_v = 8, decl.window = window, decl.role = str(role), decl.target = str(target);
    const int32_t id = b.table->store(b.table->self, &decl);
    if (id < 0) throw core_test::BuildFailure{-id};
    return id;
  }
  static int32_t of_target(const Builder& b, const char* name, int64_t rows = 0, int64_t cols = 0) {
    tenon_weight_decl decl = {};
    decl.struct_size = sizeof decl, decl.target = str(name), decl.rows = rows, decl.cols = cols;
    const int32_t id = b.table->weight(b.table->self, &decl);
    if (id < 0) throw core_test::BuildFailure{-id};
    return id;
  }
  // A token and a hidden row joined: the draft's first value.
  static int32_t joined(const Builder& b) {
    const int32_t hidden = b.table->input(b.table->self, TENON_INPUT_HIDDEN);
    const int32_t both = b.op(TENON_OP_CONCAT, nullptr, {b.embed(of_target(b, "table")), hidden})[0];
    return b.linear(both, {b.weight("join", 8, 16)})[0];
  }
  Graph draft(bool own_file, const std::function<void(const Builder&)>& body) {
    const DraftFor how = {main_, main_, 8, &names_, own_file ? 1u : 0u};
    return core_test::build(own_file ? own_names_ : names_, body, &how);
  }
  std::string fault(const std::function<void(const Builder&)>& body) {
    try {
      draft(false, [&](const Builder& b) {
        body(b);
        b.logits(b.linear(b.select(joined(b)), {b.weight("out", 16, 8)})[0]);
      });
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  static FakeSource file(int64_t head_rows, bool is_model) {
    FakeSource out;
    out.add("out", head_rows, 8), out.add("join", 8, 16);
    if (is_model) out.add("table", 16, 8), out.add("ids", 1, 4, TENON_DTYPE_I32);
    return out;
  }
  FakeSource model_ = file(16, true), own_ = file(4, false);
  NameMap names_{model_, {}}, own_names_{own_, {}};
  Graph main_;
};

TEST_F(DraftBuilderTest, WeightsAreNumberedBehindThoseOfMainAndSharedByName) {
  const Graph graph =
      draft(false, [](const Builder& b) { b.logits(b.linear(b.select(joined(b)), {b.weight("out", 16, 8)})[0]); });
  ASSERT_EQ(graph.weights.size(), main_.weights.size() + 1);
  for (size_t i = 0; i < main_.weights.size(); ++i) EXPECT_EQ(graph.weights[i].name, main_.weights[i].name);
  EXPECT_EQ(graph.weights.back().name, "join");
  EXPECT_EQ(graph.nodes.back().weight, main_.nodes.back().weight);
  EXPECT_EQ(graph.nodes[0].weight, main_.nodes[0].weight);
}

TEST_F(DraftBuilderTest, AFileOfItsOwnHasWeightsOfItsOwnUnderTheSameNames) {
  const Graph graph =
      draft(true, [](const Builder& b) { b.logits(b.linear(b.select(joined(b)), {b.weight("out", 4, 8)})[0]); });
  const Weight& head = graph.weights[size_t(graph.nodes.back().weight[0])];
  EXPECT_EQ(head.name, "out");
  EXPECT_EQ(head.source, 1u);
  EXPECT_EQ(head.rows, 4);
  const core_test::FakeDevice device;
  const Graph* graphs[] = {&main_, &graph};
  const NameMap* names[] = {&names_, &own_names_};
  const program::WeightSet weights(graphs, names, plugin::Registry(), device.device());
  EXPECT_EQ(weights.described(graph.nodes.back().weight[0]).rows, 4);
  EXPECT_EQ(weights.described(main_.nodes.back().weight[0]).rows, 16);
  EXPECT_NE(weights.resolved(graph.nodes.back().weight[0], 0).plane[0],
            weights.resolved(main_.nodes.back().weight[0], 0).plane[0]);
}

TEST_F(DraftBuilderTest, WeightsOfTheModelMayBeTiedAndMustBeThere) {
  EXPECT_EQ(fault([](const Builder& b) { EXPECT_EQ(of_target(b, "tied"), of_target(b, "table", 16, 8)); }), "");
  expect_in(fault([](const Builder& b) { of_target(b, "norm"); }), {"weight norm of the model drafted for", "none"});
  expect_in(fault([](const Builder& b) { of_target(b, "table", 0, 4); }), {"table", "16 rows of 8", "expects 0 of 4"});
}

TEST_F(DraftBuilderTest, HiddenRowsAreAsWideAsTheModelsAndReadInPlace) {
  const Graph graph = draft(false, [](const Builder& b) {
    const int32_t hidden = b.table->input(b.table->self, TENON_INPUT_HIDDEN);
    b.view(hidden, 4, 4);
    b.logits(b.linear(b.select(b.norm(hidden, -1)), {b.weight("out", 16, 8)})[0]);
  });
  EXPECT_EQ(graph.values[0].cols, 8);
  EXPECT_EQ(graph.values[0].encoding, uint32_t(TENON_ENC_F32));
  expect_in(fault([](const Builder& b) { b.tap(b.table->input(b.table->self, TENON_INPUT_HIDDEN), "hidden"); }),
            {"tap hidden", "input"});
}

TEST_F(DraftBuilderTest, StoresOfTheModelAreFoundByRoleOfEqualOnesTheLast) {
  const Graph graph = draft(false, [](const Builder& b) {
    add_store(b, "", "local", 32), add_store(b, "mine", "", 32), add_store(b, "", "global", 0);
    b.logits(b.linear(b.select(joined(b)), {b.weight("out", 16, 8)})[0]);
  });
  ASSERT_EQ(graph.stores.size(), 3u);
  EXPECT_EQ(graph.stores[0].target, 2);
  EXPECT_EQ(graph.stores[1].target, -1);
  EXPECT_EQ(graph.stores[2].target, 0);
  expect_in(fault([](const Builder& b) { add_store(b, "", "far", 0); }), {"no store \"far\""});
  expect_in(fault([](const Builder& b) { add_store(b, "", "local", 64); }),
            {"store \"local\"", "window 32", "expects 2, 8 and 8, 64"});
}

TEST_F(DraftBuilderTest, AnIdMapIsATensorOfItsFiles) {
  const auto map = [](const Builder& b, const char* name) {
    if (const tenon_status status = b.table->id_map(b.table->self, str(name))) throw core_test::BuildFailure{status};
  };
  EXPECT_EQ(fault([&](const Builder& b) { map(b, "ids"); }), "");
  expect_in(fault([&](const Builder& b) { map(b, "d2t"); }), {"id map d2t", "no such tensor"});
}

TEST_F(DraftBuilderTest, MainHasNoTarget) {
  const auto refusal = [&](const std::function<void(const Builder&)>& body) -> std::string {
    try {
      core_test::build(names_, body);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  expect_in(refusal([](const Builder& b) { of_target(b, "table"); }), {"weight table of the model drafted for"});
  expect_in(refusal([](const Builder& b) { add_store(b, "", "local", 32); }), {"this is no draft"});
  expect_in(refusal([](const Builder& b) {
              if (const tenon_status status = b.table->id_map(b.table->self, str("ids")))
                throw core_test::BuildFailure{status};
            }),
            {"an id map is for drafts"});
}

}  // namespace
}  // namespace tenon::graph
