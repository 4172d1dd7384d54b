#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tenon/error.hpp>
#include <tenon/sampler.hpp>

#include "sample/philox.hpp"

namespace tenon {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Every filter off, temperature 1.
SamplingOptions plain() {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

// All tokens that 2000 indices give.
std::set<int32_t> support(const std::vector<float>& logits, const SamplingOptions& options,
                          const std::vector<int32_t>& history = {}) {
  std::set<int32_t> ids;
  for (uint64_t index = 0; index < 2000; ++index) ids.insert(sample(logits, options, history, index));
  return ids;
}

// The definition, with a full sort: penalties left out.
int32_t sample_by_definition(const std::vector<float>& logits, const SamplingOptions& options, uint64_t index) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  const double best = logits[order[0]];
  std::vector<double> weights(logits.size(), 0.0);
  double total = 0;
  std::vector<int32_t> by_id = order;
  std::sort(by_id.begin(), by_id.end());
  for (int32_t id : by_id) total += weights[id] = std::exp((logits[id] - best) * (1.0 / double(options.temperature)));
  double sum = 0;
  std::vector<int32_t> kept;
  for (int32_t id : order) {
    kept.push_back(id);
    sum += weights[id];
    if (options.top_p < 1 && sum >= double(options.top_p) * total) break;
  }
  std::erase_if(kept, [&](int32_t id) { return weights[id] < double(options.min_p); });
  std::sort(kept.begin(), kept.end());
  double kept_total = 0;
  for (int32_t id : kept) kept_total += weights[id];
  sum = 0;
  for (int32_t id : kept) {
    sum += weights[id];
    if (sum > counter_uniform(options.seed, index) * kept_total) return id;
  }
  return kept.back();
}

TEST(Philox, GivesTheKnownAnswers) {  // of Random123's kat_vectors
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformUsesTheTopBitsAndAllOfSeedAndIndex) {
  const uint64_t bits = uint64_t{0x6627e8d5} << 32 | 0xe169c58d;
  EXPECT_EQ(counter_uniform(0, 0), static_cast<double>(bits >> 11) / 9007199254740992.0);
  std::set<double> values;
  for (uint64_t shift = 0; shift < 64; ++shift) {
    for (double value : {counter_uniform(uint64_t{1} << shift, 0), counter_uniform(0, uint64_t{1} << shift)}) {
      EXPECT_TRUE(value >= 0 && value < 1);
      values.insert(value);
    }
  }
  EXPECT_EQ(values.size(), 128u);
}

TEST(Sampler, GreedyTakesTheLowestIdOfTies) {
  SamplingOptions options = plain();
  options.temperature = 0;
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3, 2}, options, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{-kInf, -7, -kInf}, options, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{0, kInf, kInf}, options, {}, 0), 1);
  std::vector<float> row(1000, -1.0f);
  row[997] = row[501] = 4;
  EXPECT_EQ(sample(row, options, {}, 9), 501);
}

TEST(Sampler, RefusesRowsWithoutAChoice) {
  const auto refuses = [](const std::vector<float>& logits, const std::string& word) {
    for (float temperature : {0.0f, 1.0f}) {
      SamplingOptions options = plain();
      options.temperature = temperature;
      try {
        sample(logits, options, {}, 0);
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      }
    }
  };
  refuses({1, kNan, 2}, "logit 1 ");
  std::vector<float> row(100, 0.0f);
  row[77] = kNan;
  refuses(row, "logit 77 ");
  row[77] = -kNan;
  refuses(row, "logit 77 ");
  refuses({-kInf, -kInf}, "-inf");
  refuses({}, "empty");
}

TEST(Sampler, PositiveInfinityLeavesOnlyItsTokens) {
  EXPECT_EQ(support({5, kInf, 2, kInf}, plain()), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, NegativeInfinityIsNeverChosen) {
  EXPECT_EQ(support({-kInf, 0, -kInf, 0, -kInf}, plain()), (std::set<int32_t>{1, 3}));
  SamplingOptions options = plain();
  options.top_k = 4;
  EXPECT_EQ(support({-kInf, 0, -kInf, 0, -kInf}, options), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, TopKKeepsTheBestAndLowerIdsOfTies) {
  SamplingOptions options = plain();
  options.top_k = 3;
  EXPECT_EQ(support({1, 2, 1, 2, 1}, options), (std::set<int32_t>{0, 1, 3}));
  options.top_k = 1;
  EXPECT_EQ(support({1, 2, 1, 2, 1}, options), (std::set<int32_t>{1}));
  options.top_k = 50;
  EXPECT_EQ(support({1, 2, 1}, options), (std::set<int32_t>{0, 1, 2}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 1/2, 1/4, 1/8, 1/8, up to rounding.
  const float step = std::log(2.0f);
  const std::vector<float> logits = {0, step, 2 * step, 0};
  SamplingOptions options = plain();
  for (const auto& [top_p, kept] : std::vector<std::pair<float, std::set<int32_t>>>{
           {0.0f, {2}}, {0.45f, {2}}, {0.55f, {1, 2}}, {0.74f, {1, 2}}, {0.8f, {0, 1, 2}}, {0.9f, {0, 1, 2, 3}}}) {
    options.top_p = top_p;
    EXPECT_EQ(support(logits, options), kept) << top_p;
  }
}

TEST(Sampler, TopPComesBehindTemperatureAndTopK) {
  const float step = std::log(2.0f);
  SamplingOptions options = plain();
  options.top_p = 0.6f;
  options.temperature = 0.5f;  // squares: 16/22 reach 0.6 alone
  EXPECT_EQ(support({0, step, 2 * step, 0}, options), (std::set<int32_t>{2}));
  options.temperature = 1;
  options.top_k = 2;  // 2/3 of what top-k left
  EXPECT_EQ(support({0, step, 2 * step, 0}, options), (std::set<int32_t>{2}));
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const std::vector<float> logits = {std::log(0.04f), std::log(0.06f), 0, std::log(0.5f)};
  SamplingOptions options = plain();
  options.min_p = 0.05f;
  EXPECT_EQ(support(logits, options), (std::set<int32_t>{1, 2, 3}));
  options.min_p = 1;
  EXPECT_EQ(support(logits, options), (std::set<int32_t>{2}));
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplingOptions options = plain();
  options.temperature = 0;
  options.repetition_penalty = 2;
  EXPECT_EQ(sample(std::vector<float>{4, 2.1f, 2}, options, std::vector<int32_t>{0}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{4, 1.9f, 1}, options, std::vector<int32_t>{0, 0, 0}, 0), 0);  // once, not thrice
  EXPECT_EQ(sample(std::vector<float>{-1, -1.9f, -3}, options, std::vector<int32_t>{0}, 0), 1);
}

TEST(Sampler, PresenceCountsOnceAndFrequencyEachTime) {
  SamplingOptions options = plain();
  options.temperature = 0;
  options.presence_penalty = 1;
  EXPECT_EQ(sample(std::vector<float>{2, 1.1f}, options, std::vector<int32_t>{0, 0}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{2, 0.9f}, options, std::vector<int32_t>{0, 0}, 0), 0);
  options.presence_penalty = 0;
  options.frequency_penalty = 0.5f;
  EXPECT_EQ(sample(std::vector<float>{2, 1.1f}, options, std::vector<int32_t>{0, 0}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{2, 1.1f}, options, std::vector<int32_t>{0}, 0), 0);
}

TEST(Sampler, PenaltiesSeeTheWindowOnly) {
  SamplingOptions options = plain();
  options.temperature = 0;
  options.presence_penalty = 5;
  const std::vector<float> logits = {2, 1};
  const std::vector<int32_t> history = {0, 7, -3, 9};  // ids outside the row are skipped
  for (const auto& [window, expected] :
       std::vector<std::pair<int32_t, int32_t>>{{-1, 1}, {4, 1}, {99, 1}, {3, 0}, {0, 0}}) {
    options.penalty_window = window;
    EXPECT_EQ(sample(logits, options, history, 0), expected) << window;
  }
}

TEST(Sampler, DoesNotChangeTheRow) {
  SamplingOptions options = plain();
  options.presence_penalty = 1;
  const std::vector<float> before = {1, 2, 3};
  std::vector<float> logits = before;
  sample(logits, options, std::vector<int32_t>{1, 2}, 0);
  EXPECT_EQ(logits, before);
}

TEST(Sampler, EqualsItsDefinitionOnRandomRows) {
  std::mt19937 random(21);
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits(1 + random() % 6000);
    const bool coarse = random() % 2 == 0;  // many ties
    for (float& logit : logits) {
      const float value = static_cast<float>(random() % 100000) / 10000.0f;
      logit = coarse ? std::floor(value) : value;
    }
    SamplingOptions options = plain();
    options.seed = random();
    options.temperature = std::vector<float>{0.3f, 1.0f, 2.0f}[random() % 3];
    options.top_k = std::vector<int32_t>{0, 2, 40, 5000}[random() % 4];
    options.top_p = std::vector<float>{1.0f, 0.95f, 0.3f}[random() % 3];
    options.min_p = std::vector<float>{0.0f, 0.05f}[random() % 2];
    for (uint64_t index = 0; index < 3; ++index) {
      ASSERT_EQ(sample(logits, options, {}, index), sample_by_definition(logits, options, index)) << round;
    }
  }
}

TEST(Sampler, DependsOnSeedAndIndexOnly) {
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  const auto run = [&](uint64_t seed, const std::vector<uint64_t>& indices) {
    SamplingOptions options = plain();
    options.seed = seed;
    std::vector<int32_t> ids;
    for (uint64_t index : indices) ids.push_back(sample(logits, options, {}, index));
    return ids;
  };
  const auto forward = run(5, {0, 1, 2, 3});
  auto backward = run(5, {3, 2, 1, 0});
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  EXPECT_NE(forward, run(6, {0, 1, 2, 3}));
  EXPECT_NE(run(5, {0, 1, 2, 3}), run(5, {4, 5, 6, 7}));
}

TEST(Sampler, CheckNamesTheFieldThatIsOutOfRange) {
  check(SamplingOptions{});
  const auto refuses = [](const std::string& field, const std::function<void(SamplingOptions&)>& change) {
    SamplingOptions options;
    change(options);
    try {
      check(options);
      ADD_FAILURE() << field << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  };
  for (float bad : {-0.1f, kInf, kNan}) {
    refuses("temperature", [bad](auto& o) { o.temperature = bad; });
    refuses("top_p", [bad](auto& o) { o.top_p = bad; });
    refuses("min_p", [bad](auto& o) { o.min_p = bad; });
    refuses("repetition_penalty", [bad](auto& o) { o.repetition_penalty = bad; });
  }
  refuses("top_p", [](auto& o) { o.top_p = 1.1f; });
  refuses("min_p", [](auto& o) { o.min_p = 1.1f; });
  refuses("repetition_penalty", [](auto& o) { o.repetition_penalty = 0; });
  refuses("top_k", [](auto& o) { o.top_k = -1; });
  refuses("presence_penalty", [](auto& o) { o.presence_penalty = kInf; });
  refuses("frequency_penalty", [](auto& o) { o.frequency_penalty = kNan; });
  refuses("penalty_window", [](auto& o) { o.penalty_window = -2; });
}

}  // namespace
}  // namespace tenon
