// Transactions (P7): commit k of n equals k plain decode steps, rollback never happened; also across forks, saves,
// prompts and other transactions. Logits and live store bytes are compared.
#include <tenon/error.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

class TransactionTest : public PropertyTest {
 protected:
  // A history of a prompt and some decode steps, so that windows, states and a half-filled page are in play.
  static void begin_history(Model& model, Sequence& sequence) {
    feed(model, sequence, random_tokens(31, 44, model));
    feed(model, sequence, random_tokens(32, 3, model));
  }
};

TEST_P(TransactionTest, CommitOfKEqualsKPlainSteps) {
  const auto model = load();
  const Tokens tokens = random_tokens(33, TENON_DECODE_MAX_TOKENS, *model), probe = random_tokens(34, 1, *model);
  Sequence base = model->sequence();
  begin_history(*model, base);
  const std::vector<uint8_t> start = base.save();
  // plain[k]: what k steps leave, their logits, and those of a probe behind them.
  struct Plain {
    std::vector<uint8_t> saved;
    std::vector<float> logits, probe;
  };
  std::vector<Plain> plain;
  for (size_t k = 0; k <= tokens.size(); ++k) {
    base.restore(start);
    Plain p;
    if (k) p.logits = feed_singly(*model, base, part(tokens, 0, k));
    p.saved = base.save();
    p.probe = feed(*model, base, probe);
    plain.push_back(std::move(p));
  }
  Sequence sequence = model->sequence();
  for (size_t n = 1; n <= tokens.size(); ++n) {
    if (GetParam().is_slow() && n != 4 && n != 15) continue;
    for (size_t k = 0; k <= n; ++k) {
      if (GetParam().is_slow() && k != 0 && k != 3 && k != n) continue;
      SCOPED_TRACE("commit " + std::to_string(k) + " of " + std::to_string(n));
      sequence.restore(start);
      sequence.begin();
      ASSERT_TRUE(same(feed(*model, sequence, part(tokens, 0, n)), plain[n].logits));
      sequence.commit(int64_t(k));
      ASSERT_EQ(sequence.length(), 47 + int64_t(k));
      // Once the probe replays the accepted rows, once save() does.
      if (n % 2) {
        ASSERT_TRUE(same(sequence.save(), plain[k].saved));
        ASSERT_TRUE(same(feed(*model, sequence, probe), plain[k].probe));
      } else {
        ASSERT_TRUE(same(feed(*model, sequence, probe), plain[k].probe));
      }
    }
  }
}

TEST_P(TransactionTest, RollbackNeverHappened) {
  const auto model = load();
  const Tokens tokens = random_tokens(35, 15, *model);
  Sequence plain = model->sequence(), sequence = model->sequence();
  begin_history(*model, plain), begin_history(*model, sequence);
  for (size_t n : {8, 1, 15}) {
    if (GetParam().is_slow() && n != 8) continue;
    sequence.begin();
    feed(*model, sequence, part(tokens, 0, n));
    sequence.rollback();
    EXPECT_EQ(sequence.length(), plain.length());
    EXPECT_TRUE(same(sequence.save(), plain.save())) << n << " tokens";
  }
  EXPECT_TRUE(same(feed(*model, sequence, tokens), feed_singly(*model, plain, tokens)));
}

TEST_P(TransactionTest, ATransactionMayTakeSeveralAppends) {
  const auto model = load();
  const Tokens tokens = random_tokens(36, 15, *model);
  for (int64_t keep : {0, 2, 3, 9, 12, 15}) {
    if (GetParam().is_slow() && keep != 2 && keep != 12) continue;
    Sequence plain = model->sequence(), sequence = model->sequence();
    begin_history(*model, plain), begin_history(*model, sequence);
    sequence.begin();
    for (const auto& [at, n] : {std::pair<size_t, size_t>{0, 3}, {3, 1}, {4, 7}, {11, 4}})
      feed(*model, sequence, part(tokens, at, n));
    sequence.commit(keep);
    if (keep) feed_singly(*model, plain, part(tokens, 0, size_t(keep)));
    EXPECT_TRUE(same(sequence.save(), plain.save())) << "keep " << keep;
  }
}

TEST_P(TransactionTest, APromptMayFollowAcceptedRows) {
  const auto model = load();
  const Tokens tokens = random_tokens(37, 11, *model),
               prompt = random_tokens(38, GetParam().is_slow() ? 24 : 90, *model);
  for (size_t keep : {4, 1, 11}) {
    Sequence plain = model->sequence(), sequence = model->sequence();
    begin_history(*model, plain), begin_history(*model, sequence);
    sequence.begin();
    feed(*model, sequence, tokens);
    sequence.commit(int64_t(keep));
    feed_singly(*model, plain, part(tokens, 0, keep));
    EXPECT_TRUE(same(feed(*model, sequence, prompt), feed(*model, plain, prompt))) << "keep " << keep;
    EXPECT_TRUE(same(sequence.save(), plain.save())) << "keep " << keep;
    if (GetParam().is_slow()) break;
  }
}

// A transaction of one sequence runs beside plain steps and transactions of others.
TEST_P(TransactionTest, SequencesInABatchAreInTheirOwnTransactions) {
  const auto model = load();
  const size_t n = GetParam().is_slow() ? 3 : 6;
  std::vector<Sequence> batch, single;
  std::vector<Tokens> history;
  for (size_t i = 0; i < n; ++i) {
    history.push_back(random_tokens(uint32_t(60 + i), 20 + i, *model));
    for (auto* list : {&batch, &single}) feed(*model, list->emplace_back(model->sequence()), history[i]);
  }
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<Tokens> tokens;
    std::vector<Feed> feeds;
    for (size_t i = 0; i < n; ++i)
      tokens.push_back(random_tokens(uint32_t(70 + round * 10 + i), 1 + (i * 5 + round * 3) % 9, *model));
    for (size_t i = 0; i < n; ++i) {
      if ((i + round) % 3) batch[i].begin();
      feeds.push_back({&batch[i], tokens[i], {}});
    }
    model->forward(feeds);
    for (size_t i = 0; i < n; ++i) {
      size_t keep = tokens[i].size();
      if ((i + round) % 3) {
        keep = (i * 7 + round) % (tokens[i].size() + 1);
        batch[i].commit(int64_t(keep));
      }
      if (keep) feed_singly(*model, single[i], part(tokens[i], 0, keep));
    }
  }
  for (size_t i = 0; i < n; ++i) EXPECT_TRUE(same(batch[i].save(), single[i].save())) << "sequence " << i;
}

// Any order of steps, prompts, transactions, forks, saves and restores equals the plain history of what was kept.
TEST_P(TransactionTest, AnyScriptEqualsItsPlainHistory) {
  const auto model = load();
  for (uint32_t seed = 1; seed <= (GetParam().is_slow() ? 1u : 5u); ++seed) {
    std::mt19937 random(seed);
    Sequence sequence = model->sequence();
    std::vector<Tokens> history;  // 16 or more: a prompt; fewer: steps
    std::string script;
    for (int action = 0; action < (GetParam().is_slow() ? 8 : 30); ++action) {
      const uint32_t dice = random() % 10;
      if (dice < 2) {
        const Tokens tokens = random_tokens(random(), 16 + random() % 20, *model);
        if (sequence.length() + int64_t(tokens.size()) > 500) continue;
        feed(*model, sequence, tokens);
        history.push_back(tokens);
        script += " prompt";
      } else if (dice < 4) {
        const Tokens tokens = random_tokens(random(), 1 + random() % 15, *model);
        feed(*model, sequence, tokens);
        history.push_back(tokens);
        script += " step";
      } else if (dice < 8) {
        sequence.begin();
        Tokens all;
        for (uint32_t appends = random() % 4; appends-- > 0 && all.size() < 15;) {
          const Tokens tokens = random_tokens(random(), 1 + random() % (15 - all.size()), *model);
          feed(*model, sequence, tokens);
          all.insert(all.end(), tokens.begin(), tokens.end());
        }
        const size_t keep = random() % (all.size() + 1);
        sequence.commit(int64_t(keep));
        script += " commit" + std::to_string(keep) + "of" + std::to_string(all.size());
        all.resize(keep);
        if (keep) history.push_back(all);
      } else if (dice == 8) {
        sequence = sequence.fork();
        script += " fork";
      } else {
        Sequence other = model->sequence();
        feed(*model, other, random_tokens(random(), 1 + random() % 30, *model));
        other.restore(sequence.save());
        sequence = std::move(other);
        script += " restore";
      }
    }
    Sequence plain = model->sequence();
    for (const Tokens& tokens : history)
      tokens.size() >= 16 ? feed(*model, plain, tokens) : feed_singly(*model, plain, tokens);
    ASSERT_EQ(sequence.length(), plain.length()) << script;
    const Tokens probe = random_tokens(99, 1, *model);
    if (seed % 2) {
      EXPECT_TRUE(same(sequence.save(), plain.save())) << script;
    }
    EXPECT_TRUE(same(feed(*model, sequence, probe), feed(*model, plain, probe))) << script;
    EXPECT_TRUE(same(sequence.save(), plain.save())) << script;
  }
}

// What truncate() says it kept can be gone on from, also where a window's pages were restored.
TEST_P(TransactionTest, TruncatedSequencesGoOnAsIfNothingHadFollowed) {
  const auto model = load();
  const Tokens tokens = random_tokens(40, 30, *model), next = random_tokens(41, 2, *model);
  for (bool through_save : {false, true}) {
    for (int64_t wanted : {0, 96, 99, 105, 118, 120}) {
      if (GetParam().is_slow() && wanted != 105) continue;
      Sequence sequence = model->sequence();
      feed(*model, sequence, random_tokens(42, 90, *model));
      feed_singly(*model, sequence, tokens);
      if (through_save) {
        Sequence other = model->sequence();
        other.restore(sequence.save());
        sequence = std::move(other);
      }
      const int64_t kept = sequence.truncate(wanted);
      ASSERT_LE(kept, wanted);
      ASSERT_EQ(sequence.length(), kept);
      ASSERT_TRUE(kept == 0 || kept >= 90);
      Sequence plain = model->sequence();
      if (kept) {
        feed(*model, plain, random_tokens(42, 90, *model));
        if (kept > 90) feed_singly(*model, plain, part(tokens, 0, size_t(kept - 90)));
      }
      EXPECT_TRUE(same(sequence.save(), plain.save())) << wanted << " wanted, " << kept << " kept";
      EXPECT_TRUE(same(feed(*model, sequence, next), feed(*model, plain, next)))
          << wanted << " wanted, " << kept << " kept";
    }
  }
}

TEST_P(TransactionTest, MisuseIsRefusedAndChangesNothing) {
  const auto model = load();
  Sequence sequence = model->sequence();
  feed(*model, sequence, random_tokens(43, 5, *model));
  EXPECT_THROW(sequence.commit(0), Error);
  EXPECT_THROW(sequence.rollback(), Error);
  sequence.begin();
  EXPECT_THROW(sequence.begin(), Error);
  EXPECT_THROW(feed(*model, sequence, random_tokens(44, 16, *model)), Error);
  feed(*model, sequence, random_tokens(45, 10, *model));
  EXPECT_THROW(feed(*model, sequence, random_tokens(46, 6, *model)), Error);
  EXPECT_THROW(sequence.commit(11), Error);
  EXPECT_THROW(sequence.save(), Error);
  EXPECT_THROW(sequence.fork(), Error);
  EXPECT_THROW(sequence.truncate(0), Error);
  EXPECT_EQ(sequence.length(), 15);
  sequence.commit(10);
  EXPECT_THROW(feed(*model, sequence, random_tokens(47, 626, *model)), Error);
  EXPECT_EQ(sequence.length(), 15);
}

INSTANTIATE_TEST_SUITE_P(Models, TransactionTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
