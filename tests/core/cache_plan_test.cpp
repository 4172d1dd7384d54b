#include "store/cache_plan.hpp"

#include <gtest/gtest.h>

namespace tenon::store {
namespace {

TEST(CachePlanTest, PagesAloneTakeAllOfIt) {
  const CachePlan plan = plan_cache(1050, {.page_bytes = 100, .context_pages = 4});
  EXPECT_EQ(plan.n_pages, 10);
  EXPECT_EQ(plan.n_checkpoints, 0);
  EXPECT_EQ(plan.bytes, 1000u);
}

TEST(CachePlanTest, CheckpointsGetThreeQuarters) {
  const CachePlan plan =
      plan_cache(1000, {.page_bytes = 50, .window_bytes = 40, .snapshot_bytes = 60, .context_pages = 4});
  EXPECT_EQ(plan.checkpoint_bytes, 100u);
  EXPECT_EQ(plan.n_checkpoints, 7);
  EXPECT_EQ(plan.n_pages, 6);
  EXPECT_EQ(plan_cache(1000, {.snapshot_bytes = 100, .context_pages = 4}).n_checkpoints, 10)
      << "no pages to share with";
}

TEST(CachePlanTest, OneCheckpointIsWorthMoreThanPages) {
  const CachePlan plan = plan_cache(110, {.page_bytes = 50, .snapshot_bytes = 100, .context_pages = 4});
  EXPECT_EQ(plan.n_checkpoints, 1);
  EXPECT_EQ(plan.n_pages, 0);
  EXPECT_EQ(plan_cache(99, {.page_bytes = 50, .snapshot_bytes = 100, .context_pages = 4}).n_checkpoints, 0);
}

TEST(CachePlanTest, NothingIsNothing) {
  const CachePlan plan = plan_cache(0, {.page_bytes = 50, .snapshot_bytes = 100, .context_pages = 4});
  EXPECT_FALSE(plan.is_on());
  EXPECT_EQ(plan.bytes + uint64_t(plan.n_pages) + uint64_t(plan.n_checkpoints), 0u);
}

TEST(CachePlanTest, TheChosenSizeFollowsTheModelAndIsBounded) {
  const CachePlan small = plan_cache(kChosenCache, {.page_bytes = 100, .snapshot_bytes = 1000, .context_pages = 40});
  EXPECT_EQ(small.limit_bytes, 20000u);
  EXPECT_EQ(small.n_checkpoints, 16);
  EXPECT_EQ(small.n_pages, 40);
  for (const uint64_t huge : {uint64_t(1) << 40, uint64_t(1) << 63}) {
    const CachePlan large =
        plan_cache(kChosenCache, {.page_bytes = huge, .snapshot_bytes = 100 << 20, .context_pages = int64_t(1) << 50});
    EXPECT_EQ(large.limit_bytes, uint64_t(2) << 30);
    EXPECT_EQ(large.n_checkpoints, 15) << "three quarters of 2 GiB";
    EXPECT_EQ(large.n_pages, 0);
  }
}

}  // namespace
}  // namespace tenon::store
