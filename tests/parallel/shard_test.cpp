// Which part of an axis each rank has, by the declared segments, and what a view of it shows.
#include "parallel/shard.hpp"

#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <vector>

namespace tenon::parallel {
namespace {

using Parts = std::vector<Ranges>;

Axis axis(int64_t size, std::span<const tenon_segment> segments = {}, int64_t align = 1) {
  Axis out;
  out.name = "weight blk.0.w.weight, rows", out.size = size, out.segments = segments;
  out.align = align, out.align_why = "a block";
  return out;
}

std::string refusal(const Axis& axis, uint32_t n_parts) {
  try {
    cut(axis, n_parts);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Cut, EqualPartsOfAnAxisWithoutSegments) {
  EXPECT_EQ(cut(axis(8192), 8).parts[3], (Ranges{{3072, 4096}}));
  EXPECT_EQ(cut(axis(12288), 8).parts[7], (Ranges{{10752, 12288}}));
  EXPECT_EQ(cut(axis(1024), 8).parts[0], (Ranges{{0, 128}}));
  EXPECT_EQ(cut(axis(5), 1).parts, (Parts{{{0, 5}}}));
}

TEST(Cut, SegmentsAreCutOneByOne) {
  const tenon_segment segments[] = {{8, 2, 0}, {8, 2, 0}, {16, 4, 0}};
  EXPECT_EQ(cut(axis(32, segments), 2).parts, (Parts{{{0, 4}, {8, 12}, {16, 24}}, {{4, 8}, {12, 16}, {24, 32}}}));
}

TEST(Cut, UnitsGoWithTheirPeriod) {
  // Eight value heads over four key heads, head h with key head h mod 4.
  const tenon_segment segments[] = {{16, 2, 4}};
  EXPECT_EQ(cut(axis(16, segments), 2).parts, (Parts{{{0, 4}, {8, 12}}, {{4, 8}, {12, 16}}}));
  EXPECT_EQ(cut(axis(16, segments), 4).parts[1], (Ranges{{2, 4}, {10, 12}}));
}

TEST(Cut, FewerUnitsThanPartsAreRepeated) {
  const tenon_segment segments[] = {{64, 32, 0}};
  Axis heads = axis(64, segments);
  heads.repeat_if_short = true;
  EXPECT_EQ(cut(heads, 4).parts, (Parts{{{0, 32}}, {{0, 32}}, {{32, 64}}, {{32, 64}}}));
  EXPECT_NE(refusal(heads, 3).find("2 units of 32 do not divide among 3"), std::string::npos) << refusal(heads, 3);
  heads.repeat_if_short = false;
  EXPECT_NE(refusal(heads, 4).find("2 units of 32 do not divide among 4"), std::string::npos);
}

TEST(Cut, RefusesWithNamesNumbersAndTheRule) {
  EXPECT_EQ(refusal(axis(1001), 8), "weight blk.0.w.weight, rows: 1001 cannot be cut in 8: 1001 units of 1 do not divide among 8");
  EXPECT_NE(refusal(axis(8192), 3).find("8192 units of 1 do not divide among 3"), std::string::npos);
  EXPECT_NE(refusal(axis(1280, {}, 128), 4).find("10 units of 128, a block, do not divide among 4"), std::string::npos);
  EXPECT_NE(refusal(axis(256, {}, 256), 2).find("1 unit of 256, a block, does not divide among 2"), std::string::npos);
  const tenon_segment segments[] = {{1280, 64, 0}};
  EXPECT_NE(refusal(axis(1280, segments, 128), 4).find("the border at 320 is no multiple of 128, a block"), std::string::npos)
      << refusal(axis(1280, segments, 128), 4);
  const tenon_segment uneven[] = {{10, 4, 0}}, few[] = {{8, 4, 0}};
  EXPECT_NE(refusal(axis(10, uneven), 2).find("10 are no whole number of units of 4"), std::string::npos);
  EXPECT_NE(refusal(axis(16, few), 2).find("its segments have 8"), std::string::npos);
}

TEST(Shard, RanksOwnConsecutiveParts) {
  const Shard shard = cut(axis(16), 4);
  EXPECT_EQ(shard.of_rank(1, 2), (Ranges{{8, 16}}));
  EXPECT_EQ(shard.of_rank(0, 1), (Ranges{{0, 16}}));
  const tenon_segment segments[] = {{16, 2, 4}};
  EXPECT_EQ(cut(axis(16, segments), 4).of_rank(1, 2), (Ranges{{4, 8}, {12, 16}}));
  const Shard repeated = {{{{0, 32}}, {{0, 32}}, {{32, 64}}, {{32, 64}}}};
  EXPECT_EQ(repeated.of_rank(0, 2), (Ranges{{0, 32}}));
  EXPECT_EQ(repeated.of_rank(0, 1), (Ranges{{0, 64}}));
}

// Per head four columns of query and four of gate, two heads a rank.
TEST(Views, ShowWhatOfTheirColumnsARankHas) {
  const Shard fused = cut(axis(32), 2);
  const Shard gate = seen_through(fused, 4, 16, 4, 8);
  EXPECT_EQ(gate.parts, (Parts{{{0, 8}}, {{8, 16}}}));
  const auto view = as_view(fused.of_rank(1, 2), {{20, 24}, {28, 32}});
  ASSERT_TRUE(view);
  EXPECT_EQ(view->col0, 4);
  EXPECT_EQ(view->cols, 8);
  EXPECT_EQ(view->groups, 2);
  EXPECT_EQ(view->group_step, 8);
}

TEST(Views, NeedEqualSteps) {
  const Ranges owned = {{0, 8}, {16, 24}};
  EXPECT_FALSE(as_view(owned, {{4, 12}})) << "not owned";
  EXPECT_FALSE(as_view(owned, {{0, 2}, {3, 5}, {7, 8}})) << "widths differ";
  EXPECT_FALSE(as_view(owned, {{0, 1}, {2, 3}, {5, 6}})) << "steps differ";
  const auto all = as_view(owned, owned);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->cols, 16);
  EXPECT_EQ(all->groups, 1);
}

}  // namespace
}  // namespace tenon::parallel
