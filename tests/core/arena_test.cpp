#include "program/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chain.hpp"
#include "program/barriers.hpp"

namespace tenon::program {
namespace {

using core_test::Chain;

constexpr uint32_t kRows = 5, kOutputs = 3;

// A piece of an arena and the nodes that touch it. SIZE_MAX: something after the run does.
struct Piece {
  uint64_t begin, end;
  std::vector<size_t> touched;
  bool is_private;
  std::string what;
};

std::vector<Piece> pieces(const Chain& chain, const ArenaPlan& arena, const std::vector<int32_t>& kept) {
  const graph::Graph& graph = chain.selection.graph;
  std::vector<Piece> out;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    if (value.is_view() || !arena.values[v].is_placed) continue;
    Piece piece = {};
    const uint64_t rows = value.domain == TENON_DOMAIN_OUTPUT_ROWS ? kOutputs : kRows;
    piece.begin = arena.values[v].offset;
    piece.end = piece.begin + rows * uint64_t(tenon_encoding_row_bytes(value.encoding, value.cols));
    piece.is_private = arena.values[v].is_private, piece.what = "value " + std::to_string(v);
    for (size_t i = 0; i < chain.selection.nodes.size(); ++i) {
      const graph::Node& node = chain.selection.nodes[i]->node;
      for (int32_t id : node.out)
        if (size_t(id) == v) piece.touched.push_back(i);
      for (int32_t id : node.in) {
        if (size_t(graph.base_of(id)) != v) continue;
        piece.touched.push_back(i);
        // The tail may be run again for other rows.
        const bool is_tail = graph.values[size_t(node.out.at(0))].domain == TENON_DOMAIN_OUTPUT_ROWS;
        if (is_tail && value.domain == TENON_DOMAIN_TOKENS) piece.touched.push_back(SIZE_MAX);
      }
    }
    if (std::find(kept.begin(), kept.end(), int32_t(v)) != kept.end()) piece.touched.push_back(SIZE_MAX);
    out.push_back(std::move(piece));
  }
  for (size_t i = 0; i < chain.plans.size(); ++i)
    if (chain.plans[i].workspace)
      out.push_back({arena.workspaces[i],
                     arena.workspaces[i] + chain.plans[i].workspace,
                     {i},
                     false,
                     "workspace of node " + std::to_string(i)});
  return out;
}

// Everything before node a is done on every worker before any worker begins node b.
bool is_before(size_t a, size_t b, const std::vector<bool>& barriers, bool same_worker) {
  if (a == SIZE_MAX || b == SIZE_MAX) return false;
  if (same_worker) return a < b;
  for (size_t i = a + 1; i <= b && i < barriers.size(); ++i)
    if (barriers[i]) return true;
  return false;
}

void expect_apart(const Chain& chain, const ArenaPlan& arena, const std::vector<bool>& barriers,
                  const std::vector<int32_t>& kept, uint32_t n_workers) {
  const auto all = pieces(chain, arena, kept);
  for (const Piece& piece : all) {
    ASSERT_EQ(piece.begin % 64, 0u) << piece.what;
    ASSERT_LE(piece.end, piece.is_private ? arena.private_bytes : arena.shared_bytes) << piece.what;
  }
  for (size_t x = 0; x < all.size(); ++x)
    for (size_t y = x + 1; y < all.size(); ++y) {
      const Piece &a = all[x], &b = all[y];
      if (a.is_private != b.is_private || a.end <= b.begin || b.end <= a.begin) continue;
      const bool lone = a.is_private || n_workers == 1;
      const auto [a0, a1] = std::minmax_element(a.touched.begin(), a.touched.end());
      const auto [b0, b1] = std::minmax_element(b.touched.begin(), b.touched.end());
      ASSERT_TRUE(is_before(*a1, *b0, barriers, lone) || is_before(*b1, *a0, barriers, lone))
          << a.what << " and " << b.what << " share bytes while both are alive";
    }
}

tenon_plan any_plan(std::mt19937& random) {
  tenon_plan plan = {};
  plan.partition = random() % 6;
  plan.unit_cols = 4 << random() % 3, plan.n_units = 1 << random() % 3;
  if (random() % 3 == 0) plan.workspace = 1 + random() % 900;
  return plan;
}

TEST(ArenaTest, NothingThatLivesAtTheSameTimeOverlaps) {
  size_t n_reused = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const uint32_t n_workers = 1 + random() % 4;
    Chain c;
    std::vector<int32_t> tokens = {c.op(TENON_OP_EMBED, any_plan(random), {}, 16)};
    // Widths differ, so that pieces do not fall on each other's borders; an op joins values of any width here.
    const auto pick = [&](const std::vector<int32_t>& from) {
      const int32_t v = from[from.size() - 1 - random() % std::min<size_t>(from.size(), 6)];
      const int64_t cols = c.selection.graph.values[size_t(v)].cols;
      return random() % 4 ? v : c.view(v, 0, cols / 2, 1, cols / 2);
    };
    const auto grow = [&](std::vector<int32_t>& list, int n) {
      for (int i = 0; i < n; ++i) {
        const int64_t cols = 16 * (1 + random() % 8);
        if (random() % 4 == 0) {
          for (int32_t v : c.ops(TENON_OP_LINEAR, any_plan(random), {pick(list)}, {cols, 16})) list.push_back(v);
        } else {
          const int32_t a = pick(list), b = pick(list);
          list.push_back(c.op(TENON_OP_ADD, any_plan(random), {a, b}, cols));
        }
      }
    };
    grow(tokens, 5 + int(random() % 30));
    std::vector<int32_t> outputs = {c.op(TENON_OP_SELECT_ROWS, any_plan(random), {tokens.back()}, 16)};
    if (random() % 2) outputs.push_back(c.op(TENON_OP_SELECT_ROWS, any_plan(random), {pick(tokens)}, 16));
    grow(outputs, 1 + int(random() % 8));
    std::vector<int32_t> kept = {outputs.back()};
    for (int32_t v : tokens)
      if (random() % 12 == 0) kept.push_back(v);
    const std::vector<bool> barriers = place_barriers(c.selection, c.plans, n_workers);
    const ArenaPlan arena = plan_arena(c.selection, c.plans, barriers, kept, kRows, kOutputs, n_workers);
    expect_apart(c, arena, barriers, kept, n_workers);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
    uint64_t total = 0;
    for (const Piece& piece : pieces(c, arena, kept)) total += piece.end - piece.begin;
    n_reused += arena.shared_bytes + arena.private_bytes < total;
  }
  EXPECT_GT(n_reused, 300u) << "an arena that never reuses a byte would pass as well";
}

TEST(ArenaTest, ALoneWorkerReusesWhatWasReadLast) {
  Chain c;
  const tenon_plan one = {};
  int32_t x = c.op(TENON_OP_EMBED, one, {}, 64);
  for (int i = 0; i < 10; ++i) x = c.op(TENON_OP_SCALE, one, {x}, 64);
  const ArenaPlan arena = plan_arena(c.selection, c.plans, std::vector<bool>(11, false), {x}, kRows, kOutputs, 1);
  EXPECT_EQ(arena.shared_bytes, 2u * kRows * 256) << "input and output of a node, and no more";
}

TEST(ArenaTest, WithoutABarrierASlowWorkerMayStillRead) {
  Chain c;
  tenon_plan cols = {};
  cols.partition = TENON_PART_OUT_COLS, cols.unit_cols = 16;
  int32_t x = c.op(TENON_OP_EMBED, cols, {}, 64);
  for (int i = 0; i < 4; ++i) x = c.op(TENON_OP_SCALE, cols, {x}, 64);
  const std::vector<bool> none(5, false);
  EXPECT_EQ(plan_arena(c.selection, c.plans, none, {x}, kRows, kOutputs, 2).shared_bytes, 5u * kRows * 256);
  std::vector<bool> some = none;
  some[3] = true;
  EXPECT_LT(plan_arena(c.selection, c.plans, some, {x}, kRows, kOutputs, 2).shared_bytes, 5u * kRows * 256);
}

TEST(ArenaTest, WorkersHoldTheirOwnCopiesOfReplicatedValues) {
  Chain c;
  tenon_plan replicate = {};
  replicate.partition = TENON_PART_REPLICATE;
  const int32_t x = c.op(TENON_OP_EMBED, replicate, {}, 64);
  const int32_t y = c.op(TENON_OP_SCALE, tenon_plan{}, {x}, 64);
  const ArenaPlan arena = plan_arena(c.selection, c.plans, {false, false}, {y}, kRows, kOutputs, 2);
  EXPECT_TRUE(arena.values[size_t(x)].is_private);
  EXPECT_FALSE(arena.values[size_t(y)].is_private);
  EXPECT_EQ(arena.private_bytes, kRows * 256u);
  EXPECT_EQ(arena.shared_bytes, kRows * 256u);
}

TEST(ArenaTest, AViewLiesWhereItsValueLies) {
  Chain c;
  const int32_t x = c.op(TENON_OP_EMBED, tenon_plan{}, {}, 64), pad = c.op(TENON_OP_EMBED, tenon_plan{}, {}, 32);
  const int32_t v = c.view(pad, 16, 16, 1, 16);
  const int32_t y = c.op(TENON_OP_SCALE, tenon_plan{}, {v}, 16);
  c.op(TENON_OP_ADD, tenon_plan{}, {x, y}, 64);
  const ArenaPlan arena = plan_arena(c.selection, c.plans, std::vector<bool>(4, false), {}, kRows, kOutputs, 1);
  EXPECT_EQ(arena.values[size_t(v)].offset, arena.values[size_t(pad)].offset);
  EXPECT_NE(arena.values[size_t(v)].offset, arena.values[size_t(x)].offset);
}

TEST(ArenaTest, InputsOfTheStepHaveNoPlace) {
  Chain c;
  const int32_t tokens = c.value(1);
  c.selection.graph.values[size_t(tokens)].input = TENON_INPUT_TOKENS;
  const int32_t x = c.op(TENON_OP_EMBED, tenon_plan{}, {tokens}, 64);
  const ArenaPlan arena = plan_arena(c.selection, c.plans, {false}, {x}, kRows, kOutputs, 1);
  EXPECT_FALSE(arena.values[size_t(tokens)].is_placed);
  EXPECT_TRUE(arena.values[size_t(x)].is_placed);
}

}  // namespace
}  // namespace tenon::program
