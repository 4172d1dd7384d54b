// The decode phase: a row is equal alone or in any company (P3), and however its tokens are grouped into steps (P4).
#include <algorithm>
#include <numeric>

#include "property.hpp"

namespace tenon::property {
namespace {

class DecodeTest : public PropertyTest {};

// Sequences with different histories, each with a token to go on with.
struct Crowd {
  std::vector<Sequence> sequences;
  std::vector<std::vector<uint8_t>> saved;
  Tokens next;
  std::vector<std::vector<float>> alone;  // logits of the token, fed alone
  std::vector<std::vector<uint8_t>> after;

  Crowd(Model& model, size_t n) {
    next = random_tokens(7, n, model);
    for (size_t i = 0; i < n; ++i) {
      Sequence& s = sequences.emplace_back(model.sequence());
      if (i % 5) feed_singly(model, s, random_tokens(uint32_t(100 + i), i % 5, model));
      saved.push_back(s.save());
      alone.push_back(feed(model, s, part(next, i, 1)));
      after.push_back(s.save());
      reset(i);
    }
  }
  void reset(size_t i) { sequences[i].restore(saved[i]); }
};

TEST_P(DecodeTest, ARowIsEqualAloneAndAmongAnyRows) {
  const size_t n = GetParam().is_slow() ? 33 : 64;
  const auto model = load([&](ModelOptions& o) { o.max_sequences = n, o.context = 64, o.prefill_chunk = 64; });
  Crowd crowd(*model, n);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  std::mt19937 random(3);
  std::vector<size_t> counts = {33, 64};
  for (size_t count = 1; count <= 17; ++count) counts.push_back(count);
  if (GetParam().is_slow()) counts = {3, 16, 33};
  for (size_t count : counts) {
    std::shuffle(order.begin(), order.end(), random);
    const int32_t row = 0;
    std::vector<Feed> feeds;
    for (size_t i = 0; i < count; ++i)
      feeds.push_back({&crowd.sequences[order[i]], part(crowd.next, order[i], 1), {&row, 1}});
    const Output out = model->forward(feeds);
    ASSERT_EQ(out.rows, int64_t(count));
    for (size_t i = 0; i < count; ++i)
      ASSERT_TRUE(same(out.row(int64_t(i)), crowd.alone[order[i]])) << "row " << i << " of " << count;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(same(crowd.sequences[order[i]].save(), crowd.after[order[i]]))
          << "store of row " << i << " of " << count;
      crowd.reset(order[i]);
    }
  }
}

TEST_P(DecodeTest, WidthsMixInABatch) {
  const auto model = load();
  std::mt19937 random(5);
  const size_t n = GetParam().is_slow() ? 4 : 9;
  for (int round = 0; round < (GetParam().is_slow() ? 1 : 4); ++round) {
    std::vector<Sequence> sequences;
    std::vector<Tokens> tokens;
    std::vector<std::vector<float>> alone;
    std::vector<std::vector<uint8_t>> after;
    for (size_t i = 0; i < n; ++i) {
      Sequence& s = sequences.emplace_back(model->sequence());
      if (i % 3) feed(*model, s, random_tokens(uint32_t(50 + i), i % 3 == 1 ? 9 : 20, *model));
      tokens.push_back(random_tokens(random(), 1 + random() % TENON_DECODE_MAX_TOKENS, *model));
      const auto before = s.save();
      alone.push_back(feed_singly(*model, s, tokens[i]));
      after.push_back(s.save());
      s.restore(before);
    }
    std::vector<std::vector<int32_t>> rows(n);
    std::vector<Feed> feeds;
    for (size_t i = 0; i < n; ++i) {
      rows[i].resize(tokens[i].size());
      std::iota(rows[i].begin(), rows[i].end(), 0);
      feeds.push_back({&sequences[i], tokens[i], rows[i]});
    }
    const Output out = model->forward(feeds);
    size_t row = 0;
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(same(out.logits.subspan(row * size_t(out.vocab), alone[i].size()), alone[i])) << "sequence " << i;
      row += tokens[i].size();
    }
    for (size_t i = 0; i < n; ++i) EXPECT_TRUE(same(sequences[i].save(), after[i])) << "sequence " << i;
  }
}

TEST_P(DecodeTest, TokensMayBeGroupedIntoAnySteps) {
  const auto model = load();
  const size_t n = GetParam().is_slow() ? 30 : 64;
  const Tokens tokens = random_tokens(11, n, *model);
  Sequence single = model->sequence();
  const std::vector<float> expected = feed_singly(*model, single, tokens);
  const std::vector<uint8_t> saved = single.save();
  ASSERT_TRUE(all_finite(expected));
  for (uint32_t width = 2; width <= TENON_DECODE_MAX_TOKENS; ++width) {
    if (GetParam().is_slow() && width != 2 && width != 7 && width != 15) continue;
    ForwardOptions options;
    options.decode_step = width;
    Sequence sequence = model->sequence();
    ASSERT_TRUE(same(feed(*model, sequence, tokens, options), expected)) << "steps of " << width;
    ASSERT_TRUE(same(sequence.save(), saved)) << "steps of " << width;
  }
  std::mt19937 random(13);
  for (int round = 0; round < (GetParam().is_slow() ? 1 : 6); ++round) {
    Sequence sequence = model->sequence();
    std::vector<float> found;
    std::string groups;
    for (size_t at = 0; at < n;) {
      const size_t width = std::min<size_t>(1 + random() % TENON_DECODE_MAX_TOKENS, n - at);
      const std::vector<float> rows = feed(*model, sequence, part(tokens, at, width));
      found.insert(found.end(), rows.begin(), rows.end());
      at += width, groups.append(" ").append(std::to_string(width));
    }
    ASSERT_TRUE(same(found, expected)) << "steps of" << groups;
    ASSERT_TRUE(same(sequence.save(), saved)) << "steps of" << groups;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecodeTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
