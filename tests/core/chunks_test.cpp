#include "engine/chunks.hpp"

#include <gtest/gtest.h>
#include <tenon/abi.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace tenon::engine {
namespace {

constexpr int64_t kGrid = 64, kMin = 16;

std::set<int64_t> cuts_of(int64_t begin, const std::vector<int64_t>& chunks) {
  std::set<int64_t> cuts;
  for (int64_t n : chunks) cuts.insert(begin += n);
  cuts.erase(begin);  // the end is no cut
  return cuts;
}

TEST(ChunksTest, CoverThePromptInPiecesThatKernelsTake) {
  for (int64_t cap : {64, 128, 192, 512})
    for (int64_t begin : {0, 1, 15, 16, 48, 49, 50, 63, 64, 65, 112, 127, 640})
      for (int64_t n = kMin; n <= 700; ++n) {
        const auto chunks = plan_chunks(begin, n, cap);
        ASSERT_EQ(std::accumulate(chunks.begin(), chunks.end(), int64_t(0)), n) << begin << " " << n << " " << cap;
        for (int64_t chunk : chunks) {
          ASSERT_GE(chunk, kMin) << begin << " " << n << " " << cap;
          ASSERT_LE(chunk, longest_chunk(cap)) << begin << " " << n << " " << cap;
        }
        for (int64_t cut : cuts_of(begin, chunks)) ASSERT_EQ(cut % kGrid, 0) << begin << " " << n << " " << cap;
      }
}

TEST(ChunksTest, NoCutGoesThroughASpan) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
    const int64_t cap = kGrid * (1 + below(4)), begin = below(150), n = kMin + below(900);
    std::vector<UncutSpan> spans;
    for (int64_t at = begin + below(80); at < begin + n; at += below(3) ? below(60) : 0) {
      const int64_t end = std::min(begin + n, at + 1 + below(cap));
      spans.push_back({at, end}), at = end;
    }
    const auto chunks = plan_chunks(begin, n, cap, spans);
    ASSERT_EQ(std::accumulate(chunks.begin(), chunks.end(), int64_t(0)), n) << seed;
    for (int64_t chunk : chunks)
      ASSERT_TRUE(chunk >= kMin && chunk <= longest_chunk(cap, true)) << seed << ": " << chunk;
    for (int64_t cut : cuts_of(begin, chunks)) {
      bool at_border = cut % kGrid == 0;
      for (const UncutSpan& span : spans) {
        ASSERT_FALSE(span.begin < cut && cut < span.end) << seed << ": " << cut;
        at_border = at_border || cut == span.begin || cut == span.end;
      }
      ASSERT_TRUE(at_border) << seed << ": " << cut;
    }
  }
}

TEST(ChunksTest, ASpanInTheWayMovesTheCutToItsNearerEnd) {
  const auto cut = [](UncutSpan span, int64_t n = 300) { return plan_chunks(0, n, 128, std::vector{span})[0]; };
  EXPECT_EQ(cut({100, 200}), 100);
  EXPECT_EQ(cut({16, 140}), 16);
  EXPECT_EQ(cut({15, 140}), 140);
  EXPECT_EQ(cut({15, 140}, 156), 140);
  EXPECT_EQ(cut({15, 140}, 155), 155) << "15 tokens more";
  EXPECT_EQ(cut({128, 200}), 128);
  EXPECT_EQ(cut({40, 128}), 128);
}

TEST(ChunksTest, NoneIsLongerThanTheCapAboveOneGridStep) {
  EXPECT_EQ(longest_chunk(128), 128);
  EXPECT_EQ(longest_chunk(512), 512);
}

// With steps of one grid step nothing may be cut off either end: the longest case is really met.
TEST(ChunksTest, ShortEndsAreJoinedToTheStepBetween) {
  EXPECT_EQ(longest_chunk(64), 94);
  EXPECT_EQ(plan_chunks(49, 94, 64), std::vector<int64_t>{94});
  EXPECT_EQ(plan_chunks(0, 79, 64), std::vector<int64_t>{79});
  EXPECT_EQ(plan_chunks(0, 80, 64), (std::vector<int64_t>{64, 16}));
  EXPECT_EQ(plan_chunks(60, 68, 128), std::vector<int64_t>{68});
}

TEST(ChunksTest, FillTheCapWhereTheTailAllows) {
  EXPECT_EQ(plan_chunks(0, 600, 512), (std::vector<int64_t>{512, 88}));
  EXPECT_EQ(plan_chunks(0, 520, 512), (std::vector<int64_t>{448, 72})) << "a tail of 8 takes a grid step with it";
  EXPECT_EQ(plan_chunks(0, 512, 512), std::vector<int64_t>{512});
  EXPECT_EQ(plan_chunks(100, 16, 512), std::vector<int64_t>{16});
}

// Wherever a larger cap cuts, the smallest cuts too, but for the last cut, which a short tail moves.
TEST(ChunksTest, CutsOfACapLieAmongThoseOfASmallerOne) {
  for (int64_t begin : {0, 64, 128})
    for (int64_t n = kMin; n <= 1400; ++n) {
      const auto finest = cuts_of(begin, plan_chunks(begin, n, kGrid));
      for (int64_t cap : {128, 256, 512}) {
        const auto coarse = cuts_of(begin, plan_chunks(begin, n, cap));
        ASSERT_TRUE(std::includes(finest.begin(), finest.end(), coarse.begin(), coarse.end()))
            << begin << " " << n << " " << cap;
      }
    }
}

TEST(ChunksTest, TheGridIsAParameter) {
  for (int64_t n = kMin; n <= 300; ++n) {
    const auto chunks = plan_chunks(0, n, 96, {}, 32);
    for (int64_t cut : cuts_of(0, chunks)) ASSERT_EQ(cut % 32, 0);
    for (int64_t chunk : chunks) ASSERT_TRUE(chunk >= kMin && chunk <= longest_chunk(96, false, 32)) << n;
  }
}

}  // namespace
}  // namespace tenon::engine
