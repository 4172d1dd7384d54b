#include "program/barriers.hpp"

#include <gtest/gtest.h>

#include "chain.hpp"

namespace tenon::program {
namespace {

using core_test::Chain;

tenon_plan out_cols(int64_t unit) {
  tenon_plan plan = {};
  plan.partition = TENON_PART_OUT_COLS, plan.unit_cols = unit;
  return plan;
}
tenon_plan heads(int64_t n) {
  tenon_plan plan = {};
  plan.partition = TENON_PART_HEADS, plan.n_units = n;
  return plan;
}
tenon_plan just(uint32_t partition) {
  tenon_plan plan = {};
  plan.partition = partition;
  return plan;
}

// Owner of each column, by the words of abi.h.
std::vector<uint32_t> owners(const tenon_plan& plan, int64_t cols, uint32_t n_workers) {
  std::vector<uint32_t> out(size_t(cols), n_workers);
  for (uint32_t w = 0; w < n_workers; ++w) {
    const bool by_heads = plan.partition == TENON_PART_HEADS;
    const int64_t width = by_heads ? cols / plan.n_units : plan.unit_cols;
    const int64_t n = by_heads ? plan.n_units : (cols + width - 1) / width;
    for (int64_t unit = TENON_SHARE(n, w, n_workers); unit < TENON_SHARE(n, w + 1, n_workers); ++unit)
      for (int64_t c = unit * width; c < std::min(cols, (unit + 1) * width); ++c) out[size_t(c)] = w;
  }
  return out;
}

// True if every worker owns the same fraction of both, looked at column by column of their common refinement.
bool equal_by_columns(const tenon_plan& a, int64_t cols_a, const tenon_plan& b, int64_t cols_b, uint32_t n_workers) {
  const auto of_a = owners(a, cols_a, n_workers), of_b = owners(b, cols_b, n_workers);
  for (int64_t i = 0; i < cols_a * cols_b; ++i)
    if (of_a[size_t(i / cols_b)] != of_b[size_t(i / cols_a)]) return false;
  return true;
}

TEST(ColumnSharesTest, CompareAsOwnersDo) {
  struct Divided {
    tenon_plan plan;
    int64_t cols;
  };
  std::vector<Divided> all;
  for (int64_t cols : {1, 4, 12, 16, 24, 40})
    for (int64_t unit : {1, 3, 4, 8, 16}) all.push_back({out_cols(unit), cols});
  for (int64_t n : {1, 2, 3, 4, 6, 8})
    for (int64_t width : {1, 4}) all.push_back({heads(n), n * width});
  size_t n_equal = 0;
  for (const Divided& a : all)
    for (const Divided& b : all)
      for (uint32_t w = 1; w <= 7; ++w) {
        const bool expected = equal_by_columns(a.plan, a.cols, b.plan, b.cols, w);
        ASSERT_EQ(equal_column_shares(a.plan, a.cols, b.plan, b.cols, w), expected)
            << "partitions " << a.plan.partition << " and " << b.plan.partition << ", columns " << a.cols << " and "
            << b.cols << ", units " << a.plan.unit_cols << "/" << a.plan.n_units << " and " << b.plan.unit_cols << "/"
            << b.plan.n_units << ", " << w << " workers";
        n_equal += expected;
      }
  EXPECT_GT(n_equal, all.size() * 7) << "some must be equal to others than themselves";
}

TEST(ColumnSharesTest, OnlyColumnPartitionsCompare) {
  for (const uint32_t partition : {TENON_PART_ONE, TENON_PART_ROWS, TENON_PART_REPLICATE, TENON_PART_CLAIM}) {
    EXPECT_FALSE(equal_column_shares(just(partition), 8, just(partition), 8, 2));
    EXPECT_FALSE(equal_column_shares(just(partition), 8, out_cols(4), 8, 2));
  }
  EXPECT_FALSE(equal_column_shares(heads(0), 8, heads(0), 8, 2)) << "a plan that says nothing shares nothing";
  EXPECT_FALSE(equal_column_shares(out_cols(0), 8, out_cols(0), 8, 2));
}

// Barriers before each node.
std::vector<bool> barriers(const Chain& chain, uint32_t n_workers = 2) {
  return place_barriers(chain.selection, chain.plans, n_workers);
}
using Bits = std::vector<bool>;

TEST(BarriersTest, ALoneWorkerWaitsForNobody) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, just(TENON_PART_ONE), {}, 8);
  c.op(TENON_OP_ADD, out_cols(1), {x, x}, 8);
  EXPECT_EQ(barriers(c, 1), (Bits{false, false}));
}

TEST(BarriersTest, ReplicatedValuesNeedNone) {
  Chain c;
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_REPLICATE), {}, 8);
  const int32_t n = c.op(TENON_OP_NORM, just(TENON_PART_REPLICATE), {x}, 8);
  const int32_t y = c.op(TENON_OP_LINEAR, out_cols(4), {n}, 16);
  const int32_t m = c.op(TENON_OP_NORM, just(TENON_PART_REPLICATE), {y}, 16);  // reads all columns
  c.op(TENON_OP_ADD, just(TENON_PART_REPLICATE), {m, y}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false, false, true, false}));
}

TEST(BarriersTest, EqualColumnsNeedNone) {
  Chain c;
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_REPLICATE), {}, 16);
  const auto gu = c.ops(TENON_OP_LINEAR, out_cols(4), {x}, {32, 32});
  const int32_t h = c.op(TENON_OP_GLU, out_cols(8), {gu[0], gu[1]}, 32);  // other units, the same borders for 2 workers
  c.op(TENON_OP_LINEAR, out_cols(4), {h}, 16);                            // a product reads all columns
  EXPECT_EQ(barriers(c), (Bits{false, false, false, true}));
  EXPECT_EQ(barriers(c, 3), (Bits{false, false, true, true})) << "8 units of 4 and 4 units of 8 part for 3 workers";
}

TEST(BarriersTest, HeadsGoThroughToTheAttention) {
  Chain c;
  const int32_t s = c.store();
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_REPLICATE), {}, 16);
  const auto qkv = c.ops(TENON_OP_LINEAR, out_cols(8), {x}, {32, 16, 16});
  const int32_t k = c.op(TENON_OP_ROPE, heads(2), {qkv[1]}, 16);
  c.ops(TENON_OP_KV_WRITE, heads(2), {k, qkv[2]}, {}, {s});
  const int32_t q = c.op(TENON_OP_ROPE, heads(4), {qkv[0]}, 32);
  const int32_t o = c.op(TENON_OP_ATTENTION, heads(4), {q}, 32, {s});
  c.op(TENON_OP_LINEAR, out_cols(8), {o}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false, false, false, false, false, true}));
  // With 3 workers 4 heads and 2 K/V heads part: the keys must be there before anyone reads them.
  EXPECT_EQ(barriers(c, 3), (Bits{false, false, false, false, false, true, true}));
}

TEST(BarriersTest, AStoreIsWrittenBeforeItIsReadByAnother) {
  for (const uint32_t writer : {TENON_PART_ONE, TENON_PART_ROWS, TENON_PART_CLAIM}) {
    Chain c;
    const int32_t s = c.store();
    const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_REPLICATE), {}, 16);
    c.ops(TENON_OP_KV_WRITE, just(writer), {x, x}, {}, {s});
    c.op(TENON_OP_ATTENTION, heads(2), {x}, 16, {s});
    EXPECT_EQ(barriers(c), (Bits{false, false, true})) << writer;
  }
}

TEST(BarriersTest, AStoreIsReadBeforeItIsWrittenAgain) {
  Chain c;
  const int32_t s = c.store();
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_REPLICATE), {}, 16);
  c.op(TENON_OP_ATTENTION, heads(4), {x}, 16, {s});
  c.ops(TENON_OP_KV_WRITE, just(TENON_PART_ONE), {x, x}, {}, {s});
  EXPECT_EQ(barriers(c), (Bits{false, false, true}));
}

TEST(BarriersTest, RowsStayWithTheirWorker) {
  Chain c;
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_ROWS), {}, 16);
  const int32_t n = c.op(TENON_OP_NORM, just(TENON_PART_ROWS), {x}, 16);
  const int32_t y = c.op(TENON_OP_LINEAR, out_cols(4), {n}, 16);
  c.op(TENON_OP_ADD, just(TENON_PART_ROWS), {y, x}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false, true, true}));
}

TEST(BarriersTest, RowsOfAnotherDomainOrOrderDoNot) {
  Chain c;
  const int32_t x = c.op(TENON_OP_EMBED, just(TENON_PART_ROWS), {}, 16);
  c.op(TENON_OP_SHORT_CONV, just(TENON_PART_ROWS), {x}, 16);  // a row needs the rows before it
  const int32_t y = c.op(TENON_OP_ADD, just(TENON_PART_ROWS), {x, x}, 16);
  c.op(TENON_OP_SELECT_ROWS, just(TENON_PART_ROWS), {y}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, true, false, true}));
}

TEST(BarriersTest, ClaimedUnitsAreAnyones) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, just(TENON_PART_CLAIM), {}, 16);
  const int32_t y = c.op(TENON_OP_ADD, just(TENON_PART_CLAIM), {x, x}, 16);
  c.op(TENON_OP_ADD, out_cols(4), {y, y}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, true, true}));
}

TEST(BarriersTest, OneWorkerFollowsItself) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, just(TENON_PART_ONE), {}, 16);
  const int32_t y = c.op(TENON_OP_ADD, just(TENON_PART_ONE), {x, x}, 16);
  c.op(TENON_OP_ADD, just(TENON_PART_REPLICATE), {y, y}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false, true}));
}

TEST(BarriersTest, OneBarrierServesAllThatWereWrittenBefore) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, out_cols(4), {}, 16), y = c.op(TENON_OP_ADD, out_cols(4), {}, 16);
  const int32_t n = c.op(TENON_OP_NORM, just(TENON_PART_REPLICATE), {x}, 16);
  c.op(TENON_OP_NORM, just(TENON_PART_REPLICATE), {y}, 16);
  c.op(TENON_OP_ADD, out_cols(2), {n, x}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false, true, false, false}));
}

// q and gate lie side by side in each head: a view of every second run of columns keeps its heads' owners.
TEST(BarriersTest, AViewThatFallsOnTheBordersKeepsItsOwners) {
  Chain c;
  const int32_t x = c.op(TENON_OP_LINEAR, out_cols(8), {}, 64);  // 4 heads of 8 + 8
  const int32_t q = c.view(x, 0, 32, 4, 16), g = c.view(x, 8, 32, 4, 16);
  const int32_t n = c.op(TENON_OP_NORM, heads(4), {q}, 32);
  c.op(TENON_OP_GATE, heads(4), {n, g}, 32);
  EXPECT_EQ(barriers(c), (Bits{false, false, false}));
  EXPECT_EQ(barriers(c, 4), (Bits{false, false, false}));
}

TEST(BarriersTest, AViewThatDoesNotWaits) {
  {
    Chain c;  // a plain slice: its halves are not the value's halves
    const int32_t x = c.op(TENON_OP_LINEAR, out_cols(8), {}, 64);
    c.op(TENON_OP_NORM, heads(4), {c.view(x, 0, 32, 1, 32)}, 32);
    EXPECT_EQ(barriers(c), (Bits{false, true}));
  }
  {
    Chain c;  // 3 groups, 2 workers: the border cuts a group
    const int32_t x = c.op(TENON_OP_LINEAR, out_cols(1), {}, 48);
    c.op(TENON_OP_ADD, out_cols(1), {c.view(x, 0, 24, 3, 16), c.view(x, 8, 24, 3, 16)}, 24);
    EXPECT_EQ(barriers(c), (Bits{false, true}));
  }
  {
    Chain c;  // groups that do not cover the value to its end
    const int32_t x = c.op(TENON_OP_LINEAR, out_cols(8), {}, 64);
    c.op(TENON_OP_NORM, heads(2), {c.view(x, 0, 16, 2, 16)}, 16);
    EXPECT_EQ(barriers(c), (Bits{false, true}));
  }
}

// The columns that each worker reads, element by element, were written by itself where no barrier stands.
TEST(BarriersTest, AnyStridedViewIsJudgedAsItsOwnersAre) {
  size_t n_free = 0;
  for (uint32_t w = 2; w <= 5; ++w)
    for (int64_t groups : {1, 2, 3, 4, 6})
      for (int64_t step : {4, 8})
        for (int64_t width : {2, 4})
          for (int64_t rest : {0, 4}) {
            const int64_t base_cols = groups * step + rest, cols = groups * width;
            for (const tenon_plan& a : {out_cols(1), out_cols(4), heads(groups)})
              for (const tenon_plan& b : {out_cols(1), out_cols(2), heads(groups)}) {
                if (a.partition == TENON_PART_HEADS && base_cols % groups) continue;
                Chain c;
                const int32_t x = c.op(TENON_OP_LINEAR, a, {}, base_cols);
                c.op(TENON_OP_SCALE, b, {c.view(x, 0, cols, groups, step)}, cols);
                if (barriers(c, w)[1]) continue;
                ++n_free;
                const auto writers = owners(a, base_cols, w), readers = owners(b, cols, w);
                for (int64_t col = 0; col < cols; ++col)
                  ASSERT_EQ(readers[size_t(col)], writers[size_t(col / width * step + col % width)])
                      << w << " workers, " << groups << " groups of " << width << " in steps of " << step << " of "
                      << base_cols;
              }
          }
  EXPECT_GT(n_free, 50u);
}

TEST(BarriersTest, GatedDeltaRuleReadsAllKeysButItsOwnValues) {
  const auto delta = [](bool shared_keys) {
    Chain c;
    const int32_t s = c.store(TENON_STORE_RECURRENT);
    const tenon_plan keys = shared_keys ? heads(2) : just(TENON_PART_REPLICATE);
    const int32_t q = c.op(TENON_OP_NORM, keys, {}, 16), k = c.op(TENON_OP_NORM, keys, {}, 16);
    const auto vba = c.ops(TENON_OP_LINEAR, heads(4), {}, {32, 4, 4});
    c.op(TENON_OP_GATED_DELTA_RULE, heads(4), {q, k, vba[0], vba[1], vba[2]}, 32, {s});
    return barriers(c);
  };
  EXPECT_EQ(delta(false), (Bits{false, false, false, false}));
  EXPECT_EQ(delta(true), (Bits{false, false, false, true}));
}

TEST(BarriersTest, ACompositeIsTakenToReadAllColumns) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, out_cols(4), {}, 16);
  c.composite({TENON_OP_ADD, TENON_OP_NORM}, out_cols(4), {x, x}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, true}));
  Chain rows;
  const int32_t y = rows.op(TENON_OP_ADD, just(TENON_PART_ROWS), {}, 16);
  rows.composite({TENON_OP_ADD, TENON_OP_NORM}, just(TENON_PART_ROWS), {y, y}, 16);
  EXPECT_EQ(barriers(rows), (Bits{false, false}));
  Chain mixed;
  const int32_t z = mixed.op(TENON_OP_ADD, just(TENON_PART_ROWS), {}, 16);
  mixed.composite({TENON_OP_SHORT_CONV, TENON_OP_NORM}, just(TENON_PART_ROWS), {z}, 16);
  EXPECT_EQ(barriers(mixed), (Bits{false, true}));
}

// A kernel that the executor calls in slices divides the rows of each slice.
TEST(BarriersTest, SlicedRowsAreOtherRows) {
  Chain c;
  const int32_t x = c.op(TENON_OP_ADD, just(TENON_PART_ROWS), {}, 16);
  c.op(TENON_OP_SCALE, just(TENON_PART_ROWS), {x}, 16);
  EXPECT_EQ(barriers(c), (Bits{false, false}));
  tenon_kernel sliced = {};
  sliced.max_rows = 32;
  for (size_t which : {0u, 1u}) {
    for (auto& one : c.selection.nodes) one->kernel = nullptr;
    c.selection.nodes[which]->kernel = &sliced;
    EXPECT_EQ(barriers(c), (Bits{false, true}));
  }
}

}  // namespace
}  // namespace tenon::program
