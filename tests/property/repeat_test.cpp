// A run repeats (P1), and the number of threads changes nothing (P2).
#include "property.hpp"

namespace tenon::property {
namespace {

// A prompt, single steps, wide steps, a transaction of which a part stays, and the state that is left.
struct Trace {
  std::vector<float> logits;
  std::vector<uint8_t> saved;
};

Trace trace(Model& model, bool is_slow) {
  const size_t prompt = is_slow ? 70 : 150;
  const Tokens tokens = random_tokens(1, prompt + 40, model);
  Sequence sequence = model.sequence();
  Trace out;
  size_t at = 0;
  const auto append = [&](size_t n) {
    const std::vector<float> rows = feed(model, sequence, part(tokens, at, n));
    out.logits.insert(out.logits.end(), rows.begin(), rows.end());
    at += n;
  };
  append(prompt);
  for (size_t n : {1, 1, 15, 6}) append(n);
  sequence.begin();
  append(7);
  sequence.commit(4);
  append(2);
  out.saved = sequence.save();
  return out;
}

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
  if (GetParam().is_slow()) GTEST_SKIP() << "the reference has one worker";
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
