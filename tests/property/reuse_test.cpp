// Prefix reuse (P6): a prompt whose begin the prefix cache or the sequence itself holds gives a cold run's logits and
// stores, bit for bit, where prefill made what is reused. What decode steps made is reused too, and said to be not
// equal.
#include <algorithm>
#include <tenon/error.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

constexpr int64_t kGrid = TENON_PAGE_TOKENS;

class ReuseTest : public PropertyTest {
 protected:
  // One thread each, as the number of threads changes nothing (P2): these are many small steps.
  std::unique_ptr<Model> load_with_cache(int64_t bytes = -1, bool poison = false) const {
    return load([&](ModelOptions& o) {
      o.prefix_cache_bytes = bytes, o.max_sequences = 4, o.prefill_chunk = 128, o.poison = poison, o.threads = 1;
    });
  }
  std::unique_ptr<Model> load_plain() const {
    return load([](ModelOptions& o) { o.max_sequences = 4, o.threads = 1; });
  }
};

// Logits of the prompt's last `n_rows` rows, and what the sequence holds then.
struct Outcome {
  std::vector<float> logits;
  std::vector<uint8_t> saved;
  Resumed resumed;
};

Outcome run(Model& model, Sequence& sequence, const Tokens& prompt, size_t n_rows, const ResumeOptions& options = {}) {
  Outcome out;
  out.resumed = sequence.resume(prompt, options);
  const size_t begin = size_t(out.resumed.reused);
  std::vector<int32_t> rows;
  for (size_t i = prompt.size() - n_rows; i < prompt.size(); ++i) rows.push_back(int32_t(i - begin));
  const Feed feed = {&sequence, part(prompt, begin, prompt.size() - begin), rows};
  const Output output = model.forward({&feed, 1});
  out.logits.assign(output.logits.begin(), output.logits.end());
  out.saved = sequence.save();
  return out;
}

// Of a model without a cache: what a cold run gives.
Outcome cold(Model& model, const Tokens& prompt, size_t n_rows) {
  Sequence sequence = model.sequence();
  return run(model, sequence, prompt, n_rows);
}

Tokens joined(std::span<const int32_t> a, std::span<const int32_t> b) {
  Tokens out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

// Tokens that the prompt shares with the begin of some of the texts.
int64_t longest_shared(const std::vector<Tokens>& texts, const Tokens& prompt) {
  int64_t most = 0;
  for (const Tokens& text : texts)
    most = std::max<int64_t>(
        most, std::mismatch(text.begin(), text.end(), prompt.begin(), prompt.end()).first - text.begin());
  return most;
}

// Prompts that part from earlier ones anywhere, in two sequences in turn. What must not be read holds NaN.
TEST_P(ReuseTest, APromptWhoseBeginIsKnownEqualsAColdRun) {
  const auto model = load_with_cache(-1, true), plain = load_plain();
  std::mt19937 random(5);
  const size_t longest = GetParam().is_slow() ? 230 : 500;
  std::vector<Tokens> known = {random_tokens(61, longest, *model)};
  Sequence sequences[] = {model->sequence(), model->sequence()};
  run(*model, sequences[0], known[0], 1, {.message_ends = std::vector<int64_t>{70, 150}});
  int64_t reused = 0;
  for (int round = 0; round < (GetParam().is_slow() ? 3 : 8); ++round) {
    const Tokens& old = known[random() % known.size()];
    const size_t same_tokens = 1 + random() % old.size();
    const size_t n = std::min(longest, same_tokens + 1 + random() % 80);
    const Tokens prompt = joined(part(old, 0, std::min(same_tokens, n - 1)),
                                 random_tokens(random(), n - std::min(same_tokens, n - 1), *model));
    if (prompt.size() < 16) continue;
    SCOPED_TRACE("round " + std::to_string(round) + ": " + std::to_string(prompt.size()) + " tokens, " +
                 std::to_string(same_tokens) + " known");
    const std::vector<int64_t> ends = {int64_t(random() % prompt.size()), int64_t(prompt.size())};
    const Outcome warm = run(*model, sequences[round % 2], prompt, 2, {.only_equal = true, .message_ends = ends});
    const Outcome expected = cold(*plain, prompt, 2);
    EXPECT_TRUE(same(warm.logits, expected.logits));
    EXPECT_TRUE(same(warm.saved, expected.saved));
    EXPECT_TRUE(warm.resumed.is_equal);
    EXPECT_EQ(warm.resumed.reused % kGrid, 0);
    EXPECT_GE(int64_t(prompt.size()) - warm.resumed.reused, 16);
    EXPECT_LE(warm.resumed.reused, warm.resumed.matched);
    EXPECT_LE(warm.resumed.matched, longest_shared(known, prompt));
    reused += warm.resumed.reused;
    known.push_back(prompt);
  }
  EXPECT_GT(reused, 0);
  EXPECT_EQ(int64_t(model->prefix_cache().reused_tokens), reused);
}

// Each turn of a conversation adds to the one before. Only the new tokens are computed, and at most 80 beside them.
TEST_P(ReuseTest, TurnsComputeOnlyWhatIsNew) {
  const auto model = load_with_cache(), plain = load_plain();
  Sequence sequence = model->sequence();
  Tokens text;
  for (int turn = 0; turn < (GetParam().is_slow() ? 3 : 8); ++turn) {
    SCOPED_TRACE(turn);
    const size_t known = text.size(), question = 25 + size_t(turn) * 7 % 40;
    const Tokens prompt = joined(text, random_tokens(uint32_t(70 + turn), question, *model));
    const int64_t ends[] = {int64_t(prompt.size()) - 4};
    // As a template that drops the answer's begin does: the prompt parts from the last one before its end.
    const Outcome warm = run(*model, sequence, prompt, 1, {.only_equal = turn % 2 == 0, .message_ends = ends});
    EXPECT_LE(int64_t(prompt.size()) - warm.resumed.reused, int64_t(prompt.size() - known) + 80);
    if (turn % 2 == 0) {
      EXPECT_TRUE(same(warm.logits, cold(*plain, prompt, 1).logits));
    }
    text.assign(prompt.begin(), prompt.end() - 4);
    // An answer that the next prompt does not repeat.
    feed_singly(*model, sequence, random_tokens(uint32_t(90 + turn), 10, *model));
  }
}

// An answer that decode steps made, and a prompt that goes on behind it or parts from it.
TEST_P(ReuseTest, WhatDecodeMadeIsReusedAndSaidToBeNotEqual) {
  const auto model = load_with_cache(), plain = load_plain();
  Sequence sequence = model->sequence();
  const size_t n_answer = GetParam().is_slow() ? 100 : 150;
  const Tokens question = random_tokens(81, 100, *model), answer = random_tokens(82, n_answer, *model);
  run(*model, sequence, question, 1);
  feed_singly(*model, sequence, answer);
  const Tokens text = joined(question, answer);
  const Tokens next = joined(text, random_tokens(83, 30, *model));
  Sequence other = model->sequence();
  const Resumed goes_on = sequence.resume(next);
  EXPECT_EQ(goes_on.reused, int64_t(text.size()));
  EXPECT_EQ(goes_on.matched, int64_t(text.size()));
  EXPECT_FALSE(goes_on.is_equal);
  // Another sequence resumes on the grid.
  const Resumed elsewhere = other.resume(next);
  EXPECT_EQ(elsewhere.reused, int64_t(text.size()) / kGrid * kGrid);
  EXPECT_FALSE(elsewhere.is_equal);
  const int64_t parts = 64 + 64 + 40;
  const Tokens edited = joined(part(text, 0, size_t(parts)), random_tokens(84, 40, *model));
  const Resumed inside = other.resume(edited);
  EXPECT_EQ(inside.reused, 128);
  EXPECT_EQ(inside.matched, parts);
  EXPECT_FALSE(inside.is_equal);
  // On request all that decode made is computed again; what prefill makes of it takes its place.
  for (int round = 0; round < 2; ++round) {
    const Outcome warm = run(*model, other, next, 1, {.only_equal = true, .message_ends = std::vector<int64_t>{130}});
    const Outcome expected = cold(*plain, next, 1);
    EXPECT_EQ(warm.resumed.reused, round ? int64_t(next.size() - 16) / kGrid * kGrid : 64);
    EXPECT_TRUE(warm.resumed.is_equal);
    EXPECT_TRUE(same(warm.logits, expected.logits));
    EXPECT_TRUE(same(warm.saved, expected.saved));
  }
}

TEST_P(ReuseTest, ForksShareAndGoTheirOwnWays) {
  const auto model = load_with_cache(), plain = load_plain();
  Sequence sequence = model->sequence();
  const Tokens prompt = random_tokens(85, 150, *model), one = random_tokens(86, 60, *model),
               two = random_tokens(87, 60, *model);
  run(*model, sequence, prompt, 1);
  Sequence fork = sequence.fork();
  const int64_t held = int64_t(model->prefix_cache().held_bytes);
  const std::vector<float> a = feed(*model, sequence, part(one, 0, 10)), b = feed(*model, fork, part(two, 0, 10));
  for (const auto& [tokens, found, warm] : {std::tuple(&one, &a, &sequence), std::tuple(&two, &b, &fork)}) {
    Sequence fresh = plain->sequence();
    feed(*plain, fresh, prompt);
    EXPECT_TRUE(same(*found, feed(*plain, fresh, part(*tokens, 0, 10))));
    EXPECT_TRUE(same(warm->save(), fresh.save()));
  }
  EXPECT_EQ(int64_t(model->prefix_cache().held_bytes), held) << "no page was filled";
  // Both are in the cache from then on.
  feed_singly(*model, sequence, part(one, 10, 50)), feed_singly(*model, fork, part(two, 10, 50));
  for (const Tokens* way : {&one, &two}) {
    const Tokens text = joined(joined(prompt, *way), random_tokens(88, 20, *model));
    const Resumed found = sequence.resume(text);
    EXPECT_GE(found.matched, 192);
    EXPECT_GE(found.reused, 192);
  }
}

// Transactions move the cache's view of a text as they move the text.
TEST_P(ReuseTest, OnlyAcceptedTokensAreKnown) {
  const auto model = load_with_cache();
  Sequence sequence = model->sequence(), other = model->sequence();
  const Tokens prompt = random_tokens(89, 120, *model), tokens = random_tokens(90, 15, *model);
  run(*model, sequence, prompt, 1);
  sequence.begin();
  feed(*model, sequence, tokens);
  sequence.commit(10);
  const Tokens accepted = joined(joined(prompt, part(tokens, 0, 10)), random_tokens(91, 40, *model));
  const Tokens all = joined(joined(prompt, tokens), random_tokens(91, 40, *model));
  EXPECT_EQ(other.resume(all).matched, 130 / kGrid * kGrid) << "of full pages";
  EXPECT_EQ(sequence.fork().resume(all).matched, 130);
  EXPECT_EQ(sequence.resume(accepted).reused, 130);
  sequence.begin();
  EXPECT_THROW(sequence.resume(accepted), Error);
  sequence.rollback();
  EXPECT_EQ(sequence.length(), 130);
}

// A commit that crosses the grid leaves there what plain steps would have left, and its own rows as they were.
TEST_P(ReuseTest, TransactionsLeaveTheCheckpointsOfPlainSteps) {
  const auto model = load_with_cache(), plain = load_plain();
  Sequence sequence = model->sequence(), steps = plain->sequence(), other = model->sequence();
  std::mt19937 random(7);
  Tokens text = random_tokens(120, 100, *model);
  run(*model, sequence, text, 1);
  feed(*plain, steps, text);
  const size_t n = GetParam().is_slow() ? 140 : 330;
  while (text.size() < n) {
    const size_t before = text.size();
    const Tokens tokens = random_tokens(random(), 1 + random() % 15, *model);
    const size_t keep = random() % (tokens.size() + 1);
    sequence.begin();
    feed(*model, sequence, tokens);
    sequence.commit(int64_t(keep));
    text = joined(text, part(tokens, 0, keep));
    const int64_t crossed = int64_t(text.size()) / kGrid * kGrid;
    if (keep && crossed > int64_t(before)) {
      SCOPED_TRACE(crossed);
      feed_singly(*plain, steps, part(text, size_t(steps.length()), size_t(crossed - steps.length())));
      const Resumed resumed = other.resume(joined(text, random_tokens(121, 30, *model)));
      EXPECT_EQ(resumed.reused, crossed);
      EXPECT_FALSE(resumed.is_equal);
      EXPECT_TRUE(same(other.save(), steps.save()));
    }
  }
  feed_singly(*plain, steps, part(text, size_t(steps.length()), text.size() - size_t(steps.length())));
  const Tokens probe = random_tokens(122, 3, *model);
  EXPECT_TRUE(same(feed(*model, sequence, probe), feed(*plain, steps, probe)));
  EXPECT_TRUE(same(sequence.save(), steps.save()));
}

// A prompt that is given up in the middle is taken up from what was done of it.
TEST_P(ReuseTest, AnInterruptedPromptIsTakenUpAgain) {
  const auto model = load_with_cache();
  Sequence sequence = model->sequence(), other = model->sequence();
  const Tokens prompt = random_tokens(123, GetParam().is_slow() ? 280 : 600, *model);
  sequence.resume(prompt);
  ForwardOptions options;
  int polls = 0;
  options.cancelled = [&] { return ++polls > 2; };
  EXPECT_THROW(feed(*model, sequence, prompt, options), Error);
  const Outcome warm = run(*model, sequence, prompt, 1, {.only_equal = true});
  EXPECT_GT(warm.resumed.matched, 0);
  EXPECT_TRUE(same(warm.logits, cold(*load_plain(), prompt, 1).logits));
  EXPECT_EQ(other.resume(prompt).reused, int64_t(prompt.size() - 16) / kGrid * kGrid);
}

// Under a small limit what was of use longest ago is forgotten, live sequences lose nothing, and results stay.
TEST_P(ReuseTest, ASmallLimitForgetsAndChangesNothing) {
  const auto whole = load_with_cache();
  const uint64_t checkpoint_and_pages = whole->info().store_bytes / 40;
  for (const int64_t limit : {int64_t(1), int64_t(checkpoint_and_pages), int64_t(checkpoint_and_pages * 3)}) {
    const auto model = load_with_cache(limit), plain = load_plain();
    EXPECT_EQ(model->prefix_cache().limit_bytes, uint64_t(limit));
    Sequence sequence = model->sequence(), live = model->sequence();
    const Tokens kept = random_tokens(100, 140, *model);
    run(*model, live, kept, 1);
    const std::vector<uint8_t> saved = live.save();
    for (uint32_t round = 0; round < (GetParam().is_slow() ? 2u : 8u); ++round) {
      const Tokens prompt =
          joined(part(kept, 0, 70), random_tokens(101 + round, GetParam().is_slow() ? 60 : 300, *model));
      const Outcome warm = run(*model, sequence, prompt, 1, {.only_equal = true});
      EXPECT_TRUE(same(warm.logits, cold(*plain, prompt, 1).logits)) << "limit " << limit << ", round " << round;
      EXPECT_LE(model->prefix_cache().checkpoints, model->prefix_cache().most_checkpoints);
    }
    EXPECT_TRUE(same(live.save(), saved));
  }
}

TEST_P(ReuseTest, NoCacheIsNoCache) {
  const auto model = load_plain();
  Sequence sequence = model->sequence(), other = model->sequence();
  const Tokens prompt = random_tokens(110, 150, *model);
  run(*model, sequence, prompt, 1);
  EXPECT_EQ(other.resume(prompt).reused, 0);
  EXPECT_EQ(model->prefix_cache().held_bytes + uint64_t(model->prefix_cache().pages), 0u);
  EXPECT_EQ(model->prefix_cache().limit_bytes, 0u);
  // A sequence still goes on with what it holds.
  const Tokens more = joined(prompt, random_tokens(111, 20, *model));
  EXPECT_EQ(sequence.resume(more).reused, 150);
}

TEST_P(ReuseTest, AFullContextIsAnAnswer) {
  const auto model = load_with_cache();
  Sequence sequence = model->sequence();
  const Tokens prompt = random_tokens(112, 200, *model);
  run(*model, sequence, prompt, 1);
  const Tokens huge = joined(prompt, random_tokens(113, 600, *model));
  const Resumed resumed = sequence.resume(huge);
  try {
    feed(*model, sequence, part(huge, size_t(resumed.reused), huge.size() - size_t(resumed.reused)));
    FAIL() << "800 tokens went into 640";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCapacity);
  }
  EXPECT_EQ(sequence.resume(Tokens{}).reused, 0);
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_EQ(sequence.resume(Tokens{-1, 1 << 30}).matched, 0);
  const Outcome warm = run(*model, sequence, prompt, 1, {.only_equal = true});
  EXPECT_TRUE(warm.resumed.reused > 0 && warm.resumed.is_equal);
  EXPECT_TRUE(same(warm.logits, cold(*load_plain(), prompt, 1).logits));
}

INSTANTIATE_TEST_SUITE_P(Models, ReuseTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
