// A run repeats (P1), and the number of threads changes nothing (P2).
#include "property.hpp"

namespace tenon::property {
namespace {

class RepeatTest : public PropertyTest {};

TEST_P(RepeatTest, ARunRepeats) {
  const auto model = load();
  const Trace first = trace(*model, GetParam().is_slow()), second = trace(*model, GetParam().is_slow());
  EXPECT_TRUE(all_finite(first.logits));
  EXPECT_TRUE(same(second.logits, first.logits));
  EXPECT_TRUE(same(second.saved, first.saved));
}

// NaN in every byte that a step must not read: arenas, workspaces, scratch, unwritten rows of pages, tapes.
TEST_P(RepeatTest, WhatAStepMustNotReadCanHoldAnything) {
  const Trace plain = trace(*load(), GetParam().is_slow());
  const auto poisoned = load([](ModelOptions& o) { o.poison = true; });
  const Trace found = trace(*poisoned, GetParam().is_slow());
  EXPECT_TRUE(same(found.logits, plain.logits));
  EXPECT_TRUE(same(found.saved, plain.saved));
}

TEST_P(RepeatTest, AnyNumberOfThreadsGivesTheSame) {
  if (GetParam().is_slow()) GTEST_SKIP() << "the backend has one worker";
  Trace one;
  for (const uint32_t threads : {1u, 2u, 3u, 7u}) {
    const auto model = load([&](ModelOptions& o) { o.threads = threads; });
    ASSERT_EQ(model->info().threads, threads);
    const Trace found = trace(*model, false);
    if (threads == 1) {
      one = found;
    } else {
      EXPECT_TRUE(same(found.logits, one.logits)) << threads << " threads";
      EXPECT_TRUE(same(found.saved, one.saved)) << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RepeatTest, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tenon::property
