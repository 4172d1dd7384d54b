// What a forward call promises beside its logits: taps, rows as they come, errors and interruptions.
#include <map>
#include <tenon/error.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

class ForwardTest : public PropertyTest {};

TEST_P(ForwardTest, TapsChangeNothingAndDependOnNoChunks) {
  const auto model = load();
  const size_t n = GetParam().is_slow() ? 90 : 200;
  const Tokens tokens = random_tokens(61, n, *model);
  Sequence plain = model->sequence();
  const std::vector<float> expected = feed(*model, plain, tokens);
  std::map<std::string, std::vector<float>> whole, chunked;
  for (auto* tapped : {&whole, &chunked}) {
    ForwardOptions options;
    options.taps = {"hidden"}, options.tapped = tapped, options.chunk = tapped == &whole ? 0 : 64;
    Sequence sequence = model->sequence();
    EXPECT_TRUE(same(feed(*model, sequence, tokens, options), expected));
    EXPECT_TRUE(same(sequence.save(), plain.save()));
  }
  ASSERT_EQ(whole.size(), size_t(model->info().n_layers) + 1);
  for (const auto& [name, values] : whole) {
    EXPECT_EQ(values.size(), n * size_t(model->info().width)) << name;
    EXPECT_TRUE(all_finite(values)) << name;
    EXPECT_TRUE(same(chunked.at(name), values)) << name;
  }
}

TEST_P(ForwardTest, RowsMayBeTakenAsTheyCome) {
  const auto model = load();
  const Tokens a = random_tokens(62, 80, *model), b = random_tokens(63, 9, *model);
  const std::vector<int32_t> rows_a = {0, 40, 79}, rows_b = {3, 8};
  const auto run = [&](const ForwardOptions& options) {
    Sequence sa = model->sequence(), sb = model->sequence();
    const Feed feeds[] = {{&sa, a, rows_a}, {&sb, b, rows_b}};
    const Output out = model->forward(feeds, options);
    return std::vector<float>(out.logits.begin(), out.logits.end());
  };
  const std::vector<float> whole = run({});
  ASSERT_EQ(whole.size(), 5 * size_t(model->info().vocab));
  std::vector<float> streamed(whole.size());
  int n_rows = 0;
  ForwardOptions options;
  options.on_row = [&](int64_t row, std::span<const float> logits) {
    ++n_rows;
    std::copy(logits.begin(), logits.end(), streamed.begin() + row * model->info().vocab);
  };
  EXPECT_TRUE(run(options).empty());
  EXPECT_EQ(n_rows, 5);
  EXPECT_TRUE(same(streamed, whole));
}

// Only some rows' logits are wanted: the others' make no difference.
TEST_P(ForwardTest, UnwantedRowsMakeNoDifference) {
  const auto model = load();
  const Tokens tokens = random_tokens(64, 70, *model);
  Sequence a = model->sequence(), b = model->sequence(), c = model->sequence();
  const std::vector<float> all = feed(*model, a, tokens);
  const Output last = model->forward(b, tokens);
  const size_t vocab = size_t(model->info().vocab);
  ASSERT_EQ(last.rows, 1);
  EXPECT_TRUE(same(last.logits, std::span(all).subspan(69 * vocab)));
  const Feed silent = {&c, tokens, {}};
  EXPECT_EQ(model->forward({&silent, 1}).rows, 0);
  EXPECT_TRUE(same(b.save(), a.save()));
  EXPECT_TRUE(same(c.save(), a.save()));
}

TEST_P(ForwardTest, WhatIsRefusedChangesNothing) {
  const auto model = load([](ModelOptions& o) { o.context = 128; });
  Sequence s = model->sequence(), other = model->sequence();
  feed(*model, s, random_tokens(65, 30, *model));
  const std::vector<uint8_t> before = s.save();
  const Tokens good = random_tokens(66, 4, *model), long_one = random_tokens(67, 99, *model);
  const Tokens bad = {1, int32_t(model->info().vocab)}, negative = {-1};
  const auto kind_of = [&](std::vector<Feed> feeds, ForwardOptions options = {}) {
    try {
      model->forward(feeds, options);
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::kRuntime;
  };
  EXPECT_EQ(kind_of({{&other, good, {}}, {&s, long_one, {}}}), ErrorKind::kCapacity);
  EXPECT_EQ(kind_of({{&other, good, {}}, {&s, bad, {}}}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({{&s, negative, {}}}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({{&s, good, {}}, {&s, good, {}}}), ErrorKind::kUsage);
  const int32_t far = 4, twice[] = {1, 1};
  EXPECT_EQ(kind_of({{&s, good, {&far, 1}}}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({{&s, good, twice}}), ErrorKind::kUsage);
  ForwardOptions options;
  options.chunk = 100;
  EXPECT_EQ(kind_of({{&s, good, {}}}, options), ErrorKind::kUsage);
  options = {}, options.decode_step = 16;
  EXPECT_EQ(kind_of({{&s, good, {}}}, options), ErrorKind::kUsage);
  options = {}, options.taps = {"no_such_tap"};
  EXPECT_EQ(kind_of({{&s, good, {}}}, options), ErrorKind::kUsage);
  EXPECT_EQ(other.length(), 0);
  EXPECT_EQ(s.length(), 30);
  EXPECT_TRUE(same(s.save(), before));
}

// The experts of each row, of the row's own doing: the same in a prompt's chunks of any length.
TEST_P(ForwardTest, TheExpertsOfARowCanBeTapped) {
  const auto model = load();
  const Tokens tokens = random_tokens(69, 80, *model);
  std::map<std::string, std::vector<float>> tapped[2];
  for (const int i : {0, 1}) {
    Sequence s = model->sequence();
    ForwardOptions options;
    options.taps = {"route"}, options.tapped = &tapped[i], options.chunk = i ? 64 : 512;
    try {
      feed(*model, s, tokens, options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const size_t with_experts = model->info().architecture == "step35" ? 3 : 4;  // its first two layers are dense
  ASSERT_EQ(tapped[0].size(), with_experts);
  for (const auto& [name, ids] : tapped[0]) {
    EXPECT_TRUE(same(tapped[1].at(name), ids)) << name;
    ASSERT_EQ(ids.size(), 80u * 2) << name;
    for (size_t r = 0; r < ids.size(); r += 2) {
      EXPECT_NE(ids[r], ids[r + 1]);
      for (const float id : {ids[r], ids[r + 1]}) EXPECT_TRUE(id >= 0 && id < 8 && id == float(int(id))) << id;
    }
  }
}

// An interrupted prompt leaves the chunks that were done, as if no more had been asked for.
TEST_P(ForwardTest, AnInterruptedPromptKeepsItsChunks) {
  const auto model = load();
  const Tokens tokens = random_tokens(68, 150, *model);
  Sequence s = model->sequence();
  int polls = 0;
  ForwardOptions options;
  options.chunk = 64;
  options.cancelled = [&] { return ++polls > 1; };
  try {
    feed(*model, s, tokens, options);
    FAIL() << "nobody was interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
  }
  EXPECT_EQ(s.length(), 64);
  Sequence plain = model->sequence();
  feed(*model, plain, part(tokens, 0, 64));
  EXPECT_TRUE(same(s.save(), plain.save()));
  EXPECT_TRUE(same(feed(*model, s, part(tokens, 64, 86)), feed(*model, plain, part(tokens, 64, 86))));
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
