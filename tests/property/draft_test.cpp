// Drafts keep what the engine promises of main: rows are equal alone or in company and however they are grouped, what
// is rolled back never happened, and main knows nothing of them.
#include <algorithm>
#include <numeric>
#include <tenon/error.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

std::vector<Case> draft_cases() {
  std::vector<Case> out = most_cases();
  std::erase_if(out, [](const Case& c) { return !c.name.starts_with("qwen35") && !c.name.starts_with("step35"); });
  return out;
}

class DraftTest : public PropertyTest {
 protected:
  std::unique_ptr<Model> load_with_draft() const {
    return load([](ModelOptions& options) { options.entries = {"draft.0"}; });
  }
  size_t prompt() const { return GetParam().is_slow() ? 40 : 150; }
};

// Main over the tokens; the rows that drafts read.
std::vector<float> hidden_rows(Model& model, Sequence& main, std::span<const int32_t> tokens) {
  std::map<std::string, std::vector<float>> tapped;
  ForwardOptions options;
  options.taps = {"draft.hidden"}, options.tapped = &tapped;
  const Feed feed = {&main, tokens, {}};
  model.forward({&feed, 1}, options);
  return tapped.at("draft.hidden");
}

// Rows begin … begin + n - 1: each joins hidden row t and token t + 1. Logits of all.
std::vector<float> draft_rows(Model& model, Sequence& draft, const Tokens& tokens, const std::vector<float>& hidden,
                              size_t begin, size_t n, uint32_t decode_step = 0) {
  const size_t width = size_t(model.entry("draft.0").hidden_width);
  std::vector<int32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  const Feed feed = {&draft, part(tokens, begin + 1, n), rows, std::span(hidden).subspan(begin * width, n * width)};
  ForwardOptions options;
  options.decode_step = decode_step;
  const Output out = model.forward({&feed, 1}, options);
  return {out.logits.begin(), out.logits.end()};
}

TEST_P(DraftTest, RowsAreEqualInAnyGroups) {
  const auto model = load_with_draft();
  const size_t n = GetParam().is_slow() ? 16 : 60;
  const Tokens tokens = random_tokens(70, n + 1, *model);
  Sequence main = model->sequence();
  const std::vector<float> hidden = hidden_rows(*model, main, tokens);
  Sequence plain = model->draft_sequence(main, "draft.0");
  const std::vector<float> wanted = draft_rows(*model, plain, tokens, hidden, 0, n, 1);
  ASSERT_TRUE(all_finite(wanted));
  for (size_t width : {2, 5, 15}) {
    Sequence draft = model->draft_sequence(main, "draft.0");
    std::vector<float> found;
    for (size_t at = 0; at < n; at += width) {
      const std::vector<float> rows = draft_rows(*model, draft, tokens, hidden, at, std::min(width, n - at));
      found.insert(found.end(), rows.begin(), rows.end());
    }
    EXPECT_TRUE(same(found, wanted)) << width << " rows a step";
    EXPECT_TRUE(same(draft.save(), plain.save())) << width << " rows a step";
    if (GetParam().is_slow()) break;
  }
}

TEST_P(DraftTest, WhatIsRolledBackNeverHappened) {
  const auto model = load_with_draft();
  const Tokens tokens = random_tokens(71, prompt() + 16, *model);
  Sequence main = model->sequence();
  const std::vector<float> hidden = hidden_rows(*model, main, tokens);
  Sequence plain = model->draft_sequence(main, "draft.0"), draft = model->draft_sequence(main, "draft.0");
  for (Sequence* one : {&plain, &draft}) draft_rows(*model, *one, tokens, hidden, 0, prompt());
  const std::vector<uint8_t> before = plain.save();
  draft.begin();
  draft_rows(*model, draft, random_tokens(72, prompt() + 16, *model), hidden, prompt(), 7);
  draft.rollback();
  EXPECT_TRUE(same(draft.save(), before));
  // Of a chain that was checked, the accepted rows stay.
  draft.begin();
  draft_rows(*model, draft, tokens, hidden, prompt(), 9);
  draft.commit(4);
  draft_rows(*model, plain, tokens, hidden, prompt(), 4, 1);
  EXPECT_EQ(draft.length(), int64_t(prompt()) + 4);
  EXPECT_TRUE(same(draft.save(), plain.save()));
  EXPECT_TRUE(same(draft_rows(*model, draft, tokens, hidden, prompt() + 4, 3),
                   draft_rows(*model, plain, tokens, hidden, prompt() + 4, 3)));
}

TEST_P(DraftTest, SequencesOfABatchAreEqualToEachAlone) {
  const auto model = load_with_draft();
  const size_t width = size_t(model->entry("draft.0").hidden_width);
  std::vector<Sequence> mains, batch;
  std::vector<Tokens> tokens;
  std::vector<std::vector<float>> hidden, alone;
  for (uint32_t i = 0; i < 3; ++i) {
    tokens.push_back(random_tokens(80 + i, 10 + i, *model));
    mains.push_back(model->sequence());
    hidden.push_back(hidden_rows(*model, mains[i], tokens[i]));
    Sequence one = model->draft_sequence(mains[i], "draft.0");
    alone.push_back(draft_rows(*model, one, tokens[i], hidden[i], 0, tokens[i].size() - 1));
    batch.push_back(model->draft_sequence(mains[i], "draft.0"));
  }
  std::vector<Feed> feeds;
  std::vector<int32_t> rows(12);
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t n = tokens[i].size() - 1;
    feeds.push_back(
        {&batch[i], part(tokens[i], 1, n), std::span(rows).first(n), std::span(hidden[i]).first(n * width)});
  }
  const Output out = model->forward(feeds);
  size_t at = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_TRUE(same(out.logits.subspan(at, alone[i].size()), alone[i])) << "sequence " << i;
    at += alone[i].size();
  }
}

TEST_P(DraftTest, MainIsTheSameWithAndWithout) {
  const auto with = load_with_draft(), without = load();
  EXPECT_EQ(without->info().entries, (std::vector<std::string>{"main", "draft.0"}));
  const Tokens tokens = random_tokens(73, GetParam().is_slow() ? 20 : 90, *with);
  Sequence a = with->sequence(), b = without->sequence();
  Sequence draft = with->draft_sequence(a, "draft.0");
  const std::vector<float> hidden = hidden_rows(*with, a, tokens);
  draft_rows(*with, draft, tokens, hidden, 0, tokens.size() - 1);
  feed(*without, b, tokens);
  EXPECT_TRUE(same(a.save(), b.save()));
  EXPECT_TRUE(same(feed_singly(*with, a, part(tokens, 0, 2)), feed_singly(*without, b, part(tokens, 0, 2))));
}

TEST_P(DraftTest, MisuseIsRefusedAndChangesNothing) {
  const auto model = load_with_draft(), without = load();
  const size_t width = size_t(model->entry("draft.0").hidden_width);
  const Tokens tokens = random_tokens(74, 4, *model);
  Sequence main = model->sequence();
  Sequence draft = model->draft_sequence(main, "draft.0");
  const std::vector<float> hidden(4 * width, 0.5f);
  const auto refused = [&](std::initializer_list<Feed> feeds, const char* what) {
    try {
      model->forward(std::span(feeds.begin(), feeds.size()));
      ADD_FAILURE() << "taken: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused({{&draft, tokens, {}, {}}}, "hidden values");
  refused({{&draft, tokens, {}, std::span(hidden).first(4 * width - 1)}}, "hidden values");
  refused({{&main, tokens, {}, hidden}}, "0 hidden values");
  refused({{&main, tokens, {}, {}}, {&draft, tokens, {}, hidden}}, "several entries");
  EXPECT_EQ(draft.length() + main.length(), 0);
  EXPECT_THROW(model->draft_sequence(draft, "draft.0"), Error);
  EXPECT_THROW(model->draft_sequence(main, "main"), Error);
  EXPECT_THROW(model->draft_sequence(main, "draft.1"), Error);
  EXPECT_THROW(without->draft_sequence(main, "draft.0"), Error);
  Sequence other = without->sequence();
  EXPECT_THROW(without->draft_sequence(other, "draft.0"), Error);  // there, but not loaded
  EXPECT_THROW(load([](ModelOptions& options) { options.entries = {"draft.1"}; }), Error);
}

INSTANTIATE_TEST_SUITE_P(Models, DraftTest, ::testing::ValuesIn(draft_cases()), case_name);

}  // namespace
}  // namespace tenon::property
