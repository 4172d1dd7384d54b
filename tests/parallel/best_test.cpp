// Only the best token of a row: found by each rank among the logits that it has, and the same as among all of them.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "models.hpp"
#include "sample/best.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

BestToken best_among(const std::vector<float>& row, const graph::Ranges& ids, const std::vector<IdRange>& never = {}) {
  return best_of(row, pieces_without(ids, never));
}

TEST(Best, IsTheLowestIdOfTheLargestLogit) {
  EXPECT_EQ(best_among({1, 5, 2, 5}, {{0, 4}}).id, 1);
  EXPECT_EQ(best_among({-0.0f, 0.0f}, {{0, 2}}).id, 0);
  EXPECT_EQ(best_among({1, 5, 2, 5}, {{10, 12}, {20, 22}}).id, 11);
  EXPECT_EQ(best_among({1, 4, 2, 5}, {{10, 12}, {20, 22}}).id, 21);
  EXPECT_EQ(best_among({1, 5, 2, 5}, {{10, 12}, {20, 22}}, {{11, 12}}).id, 21);
  EXPECT_EQ(best_among({1, 5, 2, 5}, {{10, 12}, {20, 22}}, {{21, 30}, {0, 12}}).id, 20);
  EXPECT_EQ(best_among({-kInfinity, -3}, {{0, 2}}).id, 1);
  EXPECT_EQ(best_among({3, kInfinity}, {{0, 2}}).id, 1);
  EXPECT_EQ(best_among({1, 5}, {{0, 2}}, {{0, 2}}).id, -1);
  EXPECT_EQ(best_among({-kInfinity}, {{0, 1}}).id, -1);
}

TEST(Best, IsNoNanButSaysThatThereIsOne) {
  const BestToken found = best_among({1, kNan, 5, kNan}, {{10, 14}});
  EXPECT_EQ(found.id, 12);
  EXPECT_EQ(found.not_a_number, 11);
  EXPECT_THROW(sample(found), Error);
  EXPECT_EQ(best_among({kNan, 1}, {{10, 12}}, {{10, 11}}).not_a_number, -1) << "what is left out does not matter";
  EXPECT_EQ(best_among({kNan}, {{10, 11}}).id, -1);
}

TEST(Best, OfTwoRanksIsTheLowerIdOfEqualOnes) {
  const auto id = [](BestToken a, BestToken b) {
    EXPECT_EQ(better_of(a, b).id, better_of(b, a).id);
    return better_of(a, b).id;
  };
  EXPECT_EQ(id({2, 30, -1}, {2, 7, -1}), 7);
  EXPECT_EQ(id({2, 30, -1}, {1, 7, -1}), 30);
  EXPECT_EQ(id({-0.0f, 30, -1}, {0.0f, 7, -1}), 7);
  EXPECT_EQ(id({-9, 30, -1}, {}), 30);
  EXPECT_EQ(id({}, {}), -1);
  EXPECT_EQ(better_of({2, 30, 8}, {3, 7, 5}).not_a_number, 5);
  EXPECT_EQ(better_of({2, 30, -1}, {3, 7, 5}).not_a_number, 5);
  EXPECT_EQ(better_of({2, 30, 8}, {}).not_a_number, 8);
}

// Few different values, so that ties lie across every border; against the sampler, which sees all logits.
TEST(Best, OfAllRanksIsWhatTheSamplerTakes) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  ASSERT_TRUE(needs_only_best(greedy));
  uint32_t seed = 1;
  const auto below = [&](uint32_t n) { return (seed = seed * 1664525u + 1013904223u) / 65536 % n; };
  for (int round = 0; round < 500; ++round) {
    std::vector<float> row(40 + below(100));
    for (float& value : row) value = below(9) ? float(below(4)) : -kInfinity;
    std::vector<IdRange> never;
    for (uint32_t i = below(4); i; --i) never.push_back({int32_t(below(uint32_t(row.size()))), 0}), never.back().end = never.back().begin + int32_t(below(6));
    std::vector<float> masked = row;
    for (const IdRange& ids : never)
      for (int32_t id = ids.begin; id < ids.end && id < int32_t(row.size()); ++id) masked[size_t(id)] = -kInfinity;
    // Pieces of the row go to two ranks in turn, which have them side by side.
    graph::Ranges ids[2];
    std::vector<float> own[2];
    for (int64_t at = 0; at < int64_t(row.size());) {
      const int64_t end = std::min(int64_t(row.size()), at + 1 + below(40));
      const uint32_t rank = below(2);
      ids[rank].push_back({at, end});
      own[rank].insert(own[rank].end(), row.begin() + at, row.begin() + end);
      at = end;
    }
    const BestToken found = better_of(best_among(own[0], ids[0], never), best_among(own[1], ids[1], never));
    ASSERT_EQ(sample(found), sample(masked, greedy, {}, 0)) << "round " << round;
  }
}

TEST(Best, IsNotEnoughForPenaltiesOrChance) {
  SamplingOptions options;
  EXPECT_FALSE(needs_only_best(options));
  options.top_k = 1;
  EXPECT_TRUE(needs_only_best(options));
  options.presence_penalty = 0.5f;
  EXPECT_FALSE(needs_only_best(options));
  options.penalty_window = 0;
  EXPECT_TRUE(needs_only_best(options));
}

struct Case {
  std::string name, architecture;
  std::function<void(ModelOptions&)> ranks;
  uint32_t cuts, senders;  // of the vocabulary; ranks other than the caller that have a part of it
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
class BestOfRanks : public testing::TestWithParam<Case> {};

int32_t argmax(std::span<const float> row) { return int32_t(std::max_element(row.begin(), row.end()) - row.begin()); }

// Steps of both phases, once with all logits and once with the best alone; in every second step without the tokens that would be
// the best, and some others.
TEST_P(BestOfRanks, IsTheBestOfAllLogits) {
  ModelOptions options = options_for(cuttable(GetParam().architecture));
  GetParam().ranks(options);
  const auto model = engine().load(options);
  const auto vocab = int32_t(model->info().vocab);
  Sequence whole = model->sequence(), apart = model->sequence();
  const auto sent_by = [&](const std::function<void()>& act) {
    const uint64_t before = model->sent_bytes();
    act();
    return model->sent_bytes() - before;
  };
  const auto feed = [&](uint32_t seed, std::vector<int32_t> rows, size_t n, uint64_t* spared) {
    const std::vector<int32_t> fed = tokens(seed, n, *model);
    const Feed one = {&whole, fed, rows}, other = {&apart, fed, rows};
    std::vector<int32_t> expected;
    std::vector<float> logits;
    std::vector<IdRange> never;
    const uint64_t with_logits = sent_by([&] {
      const Output all = model->forward({&one, 1});
      for (size_t r = 0; r < rows.size(); ++r) expected.push_back(argmax(all.row(int64_t(r))));
      if (seed % 2) {
        for (const int32_t id : expected) never.push_back({id, id + 1});
        never.push_back({0, 3}), never.push_back({vocab / 2 - 1, vocab / 2 + 2});
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        std::vector<float> row(all.row(int64_t(r)).begin(), all.row(int64_t(r)).end());
        for (const IdRange& ids : never) std::fill(row.begin() + ids.begin, row.begin() + ids.end, -kInfinity);
        expected[r] = argmax(row);
        logits.push_back(row[size_t(expected[r])]);
      }
    });
    ForwardOptions how;
    how.best_only = true, how.never = never;
    const uint64_t with_best = sent_by([&] {
      const Output best = model->forward({&other, 1}, how);
      EXPECT_TRUE(best.logits.empty());
      ASSERT_EQ(best.best.size(), rows.size());
      for (size_t r = 0; r < rows.size(); ++r) {
        EXPECT_EQ(best.best[r].id, expected[r]) << "seed " << seed << ", row " << rows[r];
        EXPECT_EQ(best.best[r].logit, logits[r]);
        EXPECT_EQ(best.best[r].not_a_number, -1);
      }
    });
    *spared = with_logits - with_best;
  };
  std::vector<int32_t> all_rows;
  for (int32_t row = 0; row < 100; ++row) all_rows.push_back(row);
  const auto bytes = [&](int64_t cols) { return uint64_t(tenon_encoding_row_bytes(TENON_ENC_F32, cols)); };
  const uint64_t logits_bytes = GetParam().senders * bytes(vocab / GetParam().cuts);
  uint64_t spared = 0;
  feed(1, all_rows, 100, &spared);
  EXPECT_EQ(spared, 100 * logits_bytes);
  feed(2, {29}, 30, &spared);
  for (uint32_t step = 0; step < 6; ++step) {
    feed(3 + step, {0}, 1, &spared);
    EXPECT_EQ(spared, logits_bytes) << "no logits cross";
  }
  whole.begin(), apart.begin();
  feed(9, {0, 2, 4}, 5, &spared);
  whole.commit(3), apart.commit(3);
  feed(10, {0}, 1, &spared);
}

TEST_P(BestOfRanks, IsTheSameBesideTaps) {
  ModelOptions options = options_for(cuttable(GetParam().architecture));
  GetParam().ranks(options);
  const auto model = engine().load(options);
  const std::vector<int32_t> fed = tokens(1, 20, *model), rows = {4, 19};
  std::map<std::string, std::vector<float>> tapped;
  std::vector<int32_t> found[2];
  for (const bool with_taps : {false, true}) {
    Sequence sequence = model->sequence();
    const Feed feed = {&sequence, fed, rows};
    ForwardOptions how;
    how.best_only = true;
    if (with_taps) how.taps = {"hidden"}, how.tapped = &tapped;
    for (const BestToken& best : model->forward({&feed, 1}, how).best) found[with_taps].push_back(best.id);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0].size(), 2u);
  EXPECT_FALSE(tapped.empty());
}

std::vector<Case> cases() {
  const auto tensor = [](uint32_t n) { return [n](ModelOptions& options) { options.tensor_parallel = n; }; };
  std::vector<Case> out;
  for (const char* architecture : {"gemma3", "gemma4", "gemma4e", "llama", "qwen3", "qwen35", "qwen35moe", "step35"}) {
    const std::string name = architecture;
    out.push_back({name + "_one", name, [](ModelOptions&) {}, 1, 0});
    out.push_back({name + "_tensor_2", name, tensor(2), 2, 1});
    out.push_back({name + "_stages_2", name, [](ModelOptions& options) { options.pipeline_parallel = 2; }, 1, 1});
  }
  for (const char* architecture : {"llama", "qwen3"}) out.push_back({architecture + std::string("_tensor_4"), architecture, tensor(4), 4, 3});
  out.push_back({"qwen3_reference", "qwen3", [](ModelOptions& options) { options.tensor_parallel = 2, options.backend = "reference", options.precision = Precision::kExact; }, 2, 1});
  out.push_back({"qwen3_far", "qwen3", [](ModelOptions& options) { options.backend = "far"; }, 1, 0});  // its memory is not the host's
  out.push_back({"qwen3_both", "qwen3", [](ModelOptions& options) { options.tensor_parallel = options.pipeline_parallel = 2; }, 2, 2});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Tensor, BestOfRanks, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(BestOfModel, IsNotAskedForWithRows) {
  const auto model = engine().load(options_for(cuttable("qwen3")));
  Sequence sequence = model->sequence();
  const std::vector<int32_t> fed = {1}, rows = {0};
  const Feed feed = {&sequence, fed, rows};
  ForwardOptions how;
  how.best_only = true, how.on_row = [](int64_t, std::span<const float>) {};
  EXPECT_THROW(model->forward({&feed, 1}, how), Error);
  EXPECT_EQ(sequence.length(), 0);
}

}  // namespace
}  // namespace tenon
