// Experts dealt to owners: the bits of one device, in both phases and through transactions; and what cannot be dealt.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "models.hpp"
#include "parallel/cut_experts.hpp"
#include "parallel/rank_share.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

using Change = std::function<void(ModelOptions&)>;

struct Dealt {
  const char *name, *architecture, *backend;
  Precision precision;
  std::vector<uint32_t> owners;
  const char* folder = "";  // of the architecture's, in place of its GGUF file
};
std::ostream& operator<<(std::ostream& out, const Dealt& dealt) { return out << dealt.name; }

// Whole experts are dealt, whatever their types: models as they are.
class Experts : public testing::TestWithParam<Dealt> {
 protected:
  ModelOptions options() const {
    const std::string file = model_path(GetParam().architecture), folder = GetParam().folder;
    ModelOptions out = options_for(folder.empty() ? file : file.substr(0, file.rfind('/') + 1) + folder);
    out.backend = GetParam().backend, out.precision = GetParam().precision;
    return out;
  }
  std::unique_ptr<Model> load(const Change& change) const {
    ModelOptions out = options();
    change(out);
    return engine().load(out);
  }
  const std::vector<float>& one_device() const {
    static std::map<std::string, std::vector<float>> known;
    std::vector<float>& out = known[GetParam().name];
    if (out.empty()) out = trace(*load([](ModelOptions&) {}));
    return out;
  }
};

TEST_P(Experts, OfSeveralOwnersGiveTheBitsOfOneDevice) {
  for (const uint32_t owners : GetParam().owners) {
    const auto model = load([&](ModelOptions& options) { options.expert_parallel = owners; });
    EXPECT_EQ(model->info().n_ranks, owners);
    EXPECT_EQ(n_different(trace(*model), one_device()), 0u) << owners << " owners";
    EXPECT_EQ(n_different(trace(*model), one_device()), 0u) << owners << " owners, again";
  }
}

TEST_P(Experts, OfOwnersThatHaveEveryNthGiveTheBitsOfOneDevice) {
  for (const uint32_t owners : GetParam().owners) {
    const auto model = load([&](ModelOptions& options) { options.expert_parallel = owners, options.interleave_experts = true; });
    EXPECT_EQ(n_different(trace(*model), one_device()), 0u) << owners << " owners";
  }
}

TEST_P(Experts, DependOnNothingThatMustNotBeRead) {
  const uint32_t owners = GetParam().owners.back();
  const auto poisoned = load([&](ModelOptions& options) { options.expert_parallel = owners, options.poison = true; });
  EXPECT_EQ(n_different(trace(*poisoned), one_device()), 0u);
  const auto workers = load([&](ModelOptions& options) { options.expert_parallel = owners, options.threads = 3 * owners; });
  EXPECT_EQ(n_different(trace(*workers), one_device()), 0u) << "3 workers a rank";
}

// A rank reads, packs and keeps the experts that it owns.
TEST_P(Experts, TakeAnOwnersShareOfMemory) {
  const auto bytes = [&](uint32_t owners) {
    InspectOptions how;
    how.json = how.plan = true, how.model = options(), how.model.expert_parallel = owners;
    const std::string plan = engine().inspect(how.model.path, how), key = "\"weight_bytes\": ";
    const size_t at = plan.rfind(key);  // behind those of each rank, as the files have them: what rank 0 loads
    EXPECT_NE(at, std::string::npos) << plan;
    return std::stoll(plan.substr(at + key.size()));
  };
  const int64_t few = GetParam().owners.front(), many = GetParam().owners.back(), all = bytes(1);
  EXPECT_LT(bytes(uint32_t(few)), all);
  // Of the experts' bytes rank 0 lacks all but a share.
  EXPECT_EQ((all - bytes(uint32_t(few))) * (many - 1) * few, (all - bytes(uint32_t(many))) * (few - 1) * many);
}

// Layers of their own ranks, with owners each; and lists that give some layers' experts to others.
TEST_P(Experts, OfStagesAndOfListsGiveTheBitsOfOneDevice) {
  const auto model = load([](ModelOptions& options) { options.expert_parallel = options.pipeline_parallel = 2; });
  EXPECT_EQ(model->info().n_ranks, 4u);
  EXPECT_EQ(n_different(trace(*model), one_device()), 0u) << "2 stages of 2 owners";
  const auto listed = load([](ModelOptions& options) { options.expert_layers = "2@1,0;3@0,2"; });
  EXPECT_EQ(listed->info().n_ranks, 3u);
  EXPECT_EQ(n_different(trace(*listed), one_device()), 0u) << "owners by layer";
}

INSTANTIATE_TEST_SUITE_P(Owners, Experts,
                         testing::Values(Dealt{"qwen35moe", "qwen35moe", "cpu", Precision::kDefault, {2, 4}},
                                         Dealt{"qwen35moe_exact", "qwen35moe", "cpu", Precision::kExact, {2, 4}},
                                         Dealt{"qwen35moe_reference", "qwen35moe", "reference", Precision::kExact, {2, 4}},
                                         Dealt{"qwen35moe_split", "qwen35moe", "cpu", Precision::kDefault, {2, 4}, "nvfp4-modelopt"},
                                         Dealt{"step35", "step35", "cpu", Precision::kDefault, {2, 3}},
                                         Dealt{"step35_exact", "step35", "cpu", Precision::kExact, {2, 3}},
                                         Dealt{"gemma4moe", "gemma4moe", "cpu", Precision::kDefault, {2, 4}}),
                         [](const auto& info) { return std::string(info.param.name); });

// Ranks of `tensor` parts of the rest of a layer, of which so many own its experts.
struct Grid {
  uint32_t tensor, owners;
};
struct Beside {
  const char *name, *architecture, *type, *backend;
  Precision precision;
  uint32_t parts, expert_parts;  // of sums over a cut axis, and inside an expert
  std::vector<Grid> grids;
};
std::ostream& operator<<(std::ostream& out, const Beside& beside) { return out << beside.name; }
class ExpertsBeside : public testing::TestWithParam<Beside> {};

TEST_P(ExpertsBeside, ACutAttentionGiveTheBitsOfAsManyParts) {
  const Beside& how = GetParam();
  const auto bits = [&](const Grid& grid) {
    ModelOptions options = options_for(cuttable(how.architecture, how.type));
    options.backend = how.backend, options.precision = how.precision;
    options.tensor_parallel = grid.tensor, options.expert_parallel = grid.owners;
    options.sum_parts = how.parts, options.expert_parts = how.expert_parts;
    const auto model = engine().load(options);
    EXPECT_EQ(model->info().n_ranks, std::max(grid.tensor, grid.owners));
    return trace(*model);
  };
  const std::vector<float> expected = bits({1, 1});
  for (const Grid& grid : how.grids) EXPECT_EQ(n_different(bits(grid), expected), 0u) << grid.tensor << " ranks, " << grid.owners << " owners";
}

INSTANTIATE_TEST_SUITE_P(
    Owners, ExpertsBeside,
    testing::Values(Beside{"qwen35moe", "qwen35moe", "Q8_0", "cpu", Precision::kDefault, 2, 1, {{2, 2}, {1, 2}, {2, 4}}},
                    Beside{"qwen35moe_cut", "qwen35moe", "Q8_0", "cpu", Precision::kDefault, 2, 2, {{2, 1}, {2, 2}, {1, 4}}},
                    Beside{"qwen35moe_exact", "qwen35moe", "Q8_0", "cpu", Precision::kExact, 2, 2, {{2, 1}, {2, 2}}},
                    Beside{"qwen35moe_reference", "qwen35moe", "Q8_0", "reference", Precision::kExact, 2, 1, {{2, 2}}},
                    Beside{"step35", "step35", "Q8_0", "cpu", Precision::kDefault, 2, 1, {{2, 2}, {1, 3}}},
                    Beside{"gemma4moe", "gemma4moe", "Q8_0", "cpu", Precision::kDefault, 2, 1, {{2, 2}, {2, 4}}},
                    Beside{"gemma4moe_cut", "gemma4moe", "F16", "cpu", Precision::kDefault, 4, 2, {{2, 1}, {4, 2}, {4, 4}}}),
    [](const auto& info) { return std::string(info.param.name); });

// Every file and folder with experts that the environment names: all formats and types of weights.
TEST(ExpertsOfMore, GiveTheBitsOfOneDevice) {
  const char* root = std::getenv("TENON_TEST_MODELS");
  if (!root || !*root) GTEST_SKIP() << "set TENON_TEST_MODELS to a folder of models by architecture";
  size_t n = 0;
  const auto compare = [&](const std::string& path, const std::vector<uint32_t>& owners) {
    ModelOptions options = options_for(path);
    const std::vector<float> expected = trace(*engine().load(options));
    for (const uint32_t of : owners) {
      options.expert_parallel = of, options.interleave_experts = of > 2;
      EXPECT_EQ(n_different(trace(*engine().load(options)), expected), 0u) << path << ", " << of << " owners";
    }
    ++n;
  };
  for (const auto& [architecture, owners] : std::map<std::string, std::vector<uint32_t>>{{"gemma4moe", {2, 8}}, {"qwen35moe", {2, 8}}, {"step35", {2, 3}}}) {
    const std::filesystem::path folder = std::filesystem::path(root) / architecture;
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& model : std::filesystem::directory_iterator(folder))
      if (model.path().extension() == ".gguf" || std::filesystem::exists(model.path() / "config.json")) compare(model.path(), owners);
  }
  EXPECT_GT(n, 0u) << root;
}

// --- Owners and their numbers -------------------------------------------------------------------------------------------

TEST(Owners, HaveNeighboursOrEveryNth) {
  for (uint32_t owner = 0; owner < 4; ++owner) {
    const parallel::Ranges owned = parallel::owned_experts(288, 4, owner, false);
    for (const int64_t e : {0, 36, 72, 108, 144, 180, 216, 252})
      EXPECT_EQ(parallel::position(owned, e), e / 72 == owner ? e % 72 : -1) << "local number of expert " << e;
  }
  const parallel::Ranges odd = parallel::owned_experts(6, 2, 1, true);
  EXPECT_EQ(odd, (parallel::Ranges{{1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(parallel::position(odd, 5), 2);
  EXPECT_EQ(parallel::owned_experts(6, 1, 0, true), (parallel::Ranges{{0, 6}}));
}

// A layer that is nothing but experts: 8 of n a row, 64 wide, 32 inside.
graph::Graph layer_of_experts(uint32_t n) {
  graph::Graph out;
  const auto value = [&](uint32_t encoding, int64_t cols, uint32_t input) {
    graph::Value it;
    it.encoding = encoding, it.cols = cols, it.input = input;
    out.values.push_back(it);
    return int32_t(out.values.size()) - 1;
  };
  const auto weight = [&](const char* name, int64_t rows, int64_t cols) {
    graph::Weight it;
    it.name = name, it.role = TENON_ROLE_EXPERT, it.n_expert = n, it.rows = rows, it.cols = cols;
    out.weights.push_back(it);
    return int32_t(out.weights.size()) - 1;
  };
  graph::Node node;
  const tenon_expert_ffn_attr attr = {sizeof attr, TENON_ACT_SILU, 0, 0, 0, 8};
  node.op = TENON_OP_EXPERT_FFN, node.layer = 0, node.name = "ffn";
  node.attr.assign(reinterpret_cast<const uint8_t*>(&attr), reinterpret_cast<const uint8_t*>(&attr) + sizeof attr);
  node.in = {value(TENON_ENC_F32, 64, TENON_INPUT_HIDDEN), value(TENON_ENC_I32, 8, TENON_INPUT_TOKENS), value(TENON_ENC_F32, 8, TENON_INPUT_HIDDEN)};
  node.weight = {weight("gate", 32, 64), weight("up", 32, 64), weight("down", 64, 32)};
  node.out = {out.logits = value(TENON_ENC_F32, 64, 0)};
  out.nodes = {node}, out.n_layers = 1;
  return out;
}

parallel::CutGraph cut(uint32_t n_expert, const parallel::Plan& plan, uint32_t rank) {
  return parallel::cut_graph(layer_of_experts(n_expert), {plan, rank}, [](const graph::Weight&) { return parallel::Alignment(); });
}

TEST(Owners, GetBanksOfTheirOwn) {
  const parallel::Plan plan = {4, {{{0}, {0, 1, 2, 3}, 4}}, 1, 1, false};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const parallel::CutGraph it = cut(288, plan, rank);
    ASSERT_EQ(it.graph.weights.size(), 3u);
    for (const graph::Weight& weight : it.graph.weights) {
      EXPECT_EQ(weight.n_expert, 288u) << "ids are those of all experts";
      EXPECT_EQ(weight.kept_experts, (parallel::Ranges{{72 * rank, 72 * rank + 72}}));
      EXPECT_TRUE(weight.kept_rows.empty() && weight.kept_cols.empty());
    }
    EXPECT_EQ(it.graph.logits >= 0, rank == 0) << "the rank that has the rest of the layer gets the sum";
  }
}

// Two ranks an owner: rows of gate and up, columns of down.
TEST(Owners, OfSeveralRanksCutTheInnerWidth) {
  const parallel::Plan plan = {4, {{{0, 1, 2, 3}, {0, 1, 2, 3}, 2}}, 4, 2, true};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const parallel::CutGraph it = cut(6, plan, rank);
    const int64_t half = rank % 2 * 16, owner = rank / 2;
    const parallel::Ranges experts = {{owner, owner + 1}, {owner + 2, owner + 3}, {owner + 4, owner + 5}}, inner = {{half, half + 16}};
    ASSERT_EQ(it.graph.weights.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(it.graph.weights[i].kept_experts, experts);
      EXPECT_EQ(it.graph.weights[i].kept_rows, i < 2 ? inner : parallel::Ranges());
      EXPECT_EQ(it.graph.weights[i].kept_cols, i < 2 ? parallel::Ranges() : inner);
    }
  }
}

// What a rank sends for a row: of 8 slots the columns of others, and its own sums to those who have the rest of the layer.
TEST(Owners, SayWhatTheySend) {
  const auto sent = [](const parallel::Plan& plan, uint32_t rank) {
    return parallel::share_of(cut(288, plan, rank), rank, {[](const graph::Weight&) { return 0; }, [](const graph::Store&) { return 0; }}).sent_bytes();
  };
  const parallel::Plan shared = {4, {{{0, 1, 2, 3}, {0, 1, 2, 3}, 4}}, 4, 1, false};
  // Only rank 0 wants the logits, but all share the layer.
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(sent(shared, rank), 8 * (64 - 16) * 4 + 3 * 16 * 4u);
  const parallel::Plan alone = {2, {{{0}, {0, 1}, 2}}, 1, 1, false};
  EXPECT_EQ(sent(alone, 1), 8 * 32 * 4 + 32 * 4u);
}

// Owners that sum what they have: close to one device, and the same in every run.
TEST(Owners, MaySumTheirOwnSlots) {
  for (const char* architecture : {"qwen35moe", "step35"}) {
    const auto load = [&](const Grid& grid, bool fast) {
      ModelOptions options = options_for(cuttable(architecture));
      options.precision = Precision::kExact, options.fast_sums = fast;
      options.tensor_parallel = grid.tensor, options.expert_parallel = grid.owners;
      return engine().load(options);
    };
    const std::vector<float> expected = trace(*load({1, 1}, false));
    for (const Grid& grid : {Grid{2, 2}, {1, 2}}) {
      const auto fast = load(grid, true);
      const std::vector<float> found = trace(*fast);
      EXPECT_LT(relative_error(found, expected), 1e-4) << architecture;
      EXPECT_EQ(n_different(trace(*fast), found), 0u) << architecture << ", again";
    }
  }
  const parallel::Plan plan = {4, {{{0, 1, 2, 3}, {0, 1, 2, 3}, 4}}, 4, 1, false};
  const parallel::CutGraph it = parallel::cut_graph(layer_of_experts(288), {plan, 0, true, true}, [](const graph::Weight&) { return parallel::Alignment(); });
  ASSERT_EQ(it.exchanges.size(), 1u);
  EXPECT_EQ(it.exchanges[0].kind, parallel::Exchange::Kind::kSum);
}

TEST(Owners, ThatCannotBeServedAreRefused) {
  const auto fault = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto dealt = [&](uint32_t n_expert, uint32_t owners, uint32_t cuts = 1, uint32_t parts = 1) {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 0; r < owners * cuts; ++r) ranks.push_back(r);
    return fault([&] { cut(n_expert, {owners * cuts, {{{0}, ranks, owners}}, 1, parts, false}, 0); });
  };
  EXPECT_EQ(dealt(288, 4), "none");
  EXPECT_EQ(dealt(288, 5), "weight gate: 288 experts cannot be dealt to 5 owners: each has as many, and 3 would be left over");
  EXPECT_EQ(dealt(4, 6), "weight gate: 4 experts cannot be dealt to 6 owners: there are more owners than experts");
  EXPECT_EQ(dealt(8, 2, 2, 3), "weight down: 3 parts of a sum inside an expert cannot be dealt to the 2 ranks of an owner");
  EXPECT_EQ(dealt(8, 2, 3, 3), "weight down, columns: 32 cannot be cut in 3: 32 units of 1 do not divide among 3");

  const graph::Graph graph = layer_of_experts(8);
  graph::Graph dense = graph;
  dense.nodes[0].op = TENON_OP_GLU;
  parallel::PlanOptions options;
  options.experts = 2;
  EXPECT_EQ(fault([&] { parallel::check_experts(graph, options); }), "none");
  EXPECT_EQ(fault([&] { parallel::check_experts(dense, options); }), "--expert-parallel 2: the model has no experts");
  options.experts = 1, options.expert_layers = "0@0,1";
  EXPECT_EQ(fault([&] { parallel::check_experts(graph, options); }), "none");
  EXPECT_EQ(fault([&] { parallel::check_experts(dense, options); }), "--expert-parallel: layer 0 has no experts");
}

}  // namespace
}  // namespace tenon
