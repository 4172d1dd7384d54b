// Replayed steps equal those that are launched one by one (P8), and a device whose memory is far and whose work comes
// late gives the bits of the kernels that it runs.
#include <numeric>

#include "property.hpp"

namespace tenon::property {
namespace {

// Steps of many shapes, one after the other and each more than once, so that recorded ones meet other tokens, lengths,
// sequences, pages and transactions than those they were recorded with.
std::vector<float> many_steps(Model& model, std::vector<uint8_t>& saved) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < 5; ++i) sequences.push_back(model.sequence());
  std::mt19937 random(91);
  std::vector<float> out;
  for (int round = 0; round < 12; ++round) {
    std::vector<Tokens> tokens;
    std::vector<std::vector<int32_t>> rows;
    const size_t first = random() % 3, n = 1 + random() % 3;
    for (size_t i = 0; i < n; ++i) {
      tokens.push_back(random_tokens(random(), round % 4 == 3 ? 1 + random() % 15 : 1, model));
      rows.emplace_back(1, int32_t(tokens[i].size()) - 1);
      if (round % 4 == 2) rows[i].clear();  // nobody asks for logits
      if (round % 3 == 2) sequences[first + i].begin();
    }
    std::vector<Feed> feeds;
    for (size_t i = 0; i < n; ++i) feeds.push_back({&sequences[first + i], tokens[i], rows[i]});
    const Output step = model.forward(feeds);
    out.insert(out.end(), step.logits.begin(), step.logits.end());
    for (size_t i = 0; i < n && round % 3 == 2; ++i)
      sequences[first + i].commit(int64_t(random() % (tokens[i].size() + 1)));
  }
  for (const Sequence& sequence : sequences) {
    const std::vector<uint8_t> bytes = sequence.save();
    saved.insert(saved.end(), bytes.begin(), bytes.end());
  }
  return out;
}

class ReplayTest : public PropertyTest {};

TEST_P(ReplayTest, ReplayedStepsEqualLaunchedOnes) {
  const auto replayed = load();
  if (!replayed->info().captured) GTEST_SKIP() << "the backend records no steps";
  const auto launched = load([](ModelOptions& o) { o.capture = false; });
  ASSERT_FALSE(launched->info().captured);
  std::vector<uint8_t> saved, expected_saved;
  const std::vector<float> expected = many_steps(*launched, expected_saved);
  EXPECT_TRUE(all_finite(expected));
  EXPECT_TRUE(same(many_steps(*replayed, saved), expected));
  EXPECT_TRUE(same(saved, expected_saved));
  // Once more, when every shape is recorded already.
  saved.clear();
  EXPECT_TRUE(same(many_steps(*replayed, saved), expected));
  EXPECT_TRUE(same(saved, expected_saved));
}

INSTANTIATE_TEST_SUITE_P(Models, ReplayTest, ::testing::ValuesIn(most_cases()), case_name);

class FarTest : public PropertyTest {};

TEST_P(FarTest, GivesTheBitsOfTheReference) {
  if (!has_plugin("reference")) GTEST_SKIP() << "the plugin of backend reference is not built";
  const Trace found = trace(*load(), true);
  const Trace expected = trace(*load([](ModelOptions& o) { o.backend = "reference"; }), true);
  EXPECT_TRUE(same(found.logits, expected.logits));
  EXPECT_TRUE(same(found.saved, expected.saved));
}

std::vector<Case> far_cases() {
  std::vector<Case> out = all_cases();
  std::erase_if(out, [](const Case& c) { return c.backend != "far"; });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Models, FarTest, ::testing::ValuesIn(far_cases()), case_name);

}  // namespace
}  // namespace tenon::property
