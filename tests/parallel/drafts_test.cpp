// Drafts over ranks: their rows, what a chain of them proposes and what the model takes of it, against one device.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "models.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

constexpr const char* kHidden = "draft.hidden";

// One feed's logits of all rows, or of the last one, and the rows that drafts read.
struct Rows {
  std::vector<float> logits, hidden;
};
Rows rows_of(Model& model, Sequence& sequence, std::span<const int32_t> ids, std::span<const float> hidden = {}, bool all = true) {
  std::vector<int32_t> wanted(all ? ids.size() : 1, int32_t(ids.size()) - 1);
  if (all) std::iota(wanted.begin(), wanted.end(), 0);
  std::map<std::string, std::vector<float>> tapped;
  ForwardOptions options;
  options.taps = {kHidden}, options.tapped = &tapped;
  const Feed feed = {&sequence, ids, wanted, hidden};
  const Output out = model.forward({&feed, 1}, options);
  return {{out.logits.begin(), out.logits.end()}, std::move(tapped.at(kHidden))};
}

void append(std::vector<float>& to, const std::vector<float>& values) { to.insert(to.end(), values.begin(), values.end()); }

// Of a draft: two prefill chunks, plain steps, what is rolled back, what is kept in part, a fork, what comes back from a save,
// and a batch; without taps too, and the best tokens alone.
std::vector<float> draft_trace(Model& model, const std::string& entry = "draft.0") {
  const size_t width = size_t(model.entry(entry).hidden_width);
  const std::vector<int32_t> ids = tokens(1, 131, model);
  const std::span<const int32_t> all = ids;
  std::vector<float> out;
  Sequence main = model.sequence();
  const std::vector<float> hidden = rows_of(model, main, all).hidden;
  const auto feed = [&](Sequence& draft, size_t begin, size_t n, size_t shift = 0) {
    const std::span<const float> rows = std::span(hidden).subspan((begin + shift) * width, n * width);
    const Rows found = rows_of(model, draft, all.subspan(begin + 1, n), rows);
    append(out, found.logits), append(out, found.hidden);
  };
  Sequence draft = model.draft_sequence(main, entry);
  feed(draft, 0, 100);
  feed(draft, 100, 3);
  draft.begin();
  feed(draft, 103, 6, 2);
  draft.rollback();
  draft.begin();
  feed(draft, 103, 9);
  draft.commit(4);
  feed(draft, 107, 1);
  Sequence copy = draft.fork();
  feed(copy, 108, 2);
  copy.restore(draft.save());
  feed(copy, 108, 20);
  EXPECT_EQ(draft.truncate(105), 105);
  feed(draft, 105, 2);

  std::vector<Feed> batch;
  const std::vector<int32_t> first = {0, 1}, second = {2};
  const auto both = [&] {
    batch = {{&draft, all.subspan(108, 2), first, std::span(hidden).subspan(107 * width, 2 * width)},
             {&copy, all.subspan(129, 1), {}, std::span(hidden).subspan(128 * width, width)}};
  };
  draft.begin(), copy.begin();
  both();
  const Output logits = model.forward(batch, {});
  out.insert(out.end(), logits.logits.begin(), logits.logits.end());
  draft.rollback(), copy.rollback();
  both();
  ForwardOptions best_only;
  best_only.best_only = true;
  for (const BestToken& best : model.forward(batch, best_only).best) out.push_back(float(best.id)), out.push_back(best.logit);
  for (const uint8_t byte : draft.save()) out.push_back(float(byte));
  return out;
}

int32_t best_of(std::span<const float> row) { return int32_t(std::max_element(row.begin(), row.end()) - row.begin()); }

// Greedy text with drafts: a round proposes tokens by a block that reads its own rows, all but the first taken back, and main
// keeps those that it would have said itself. Answers the text, then for each round how many proposals were kept.
struct Speech {
  std::vector<int32_t> text, kept;
  bool operator==(const Speech&) const = default;
};
Speech speak(Model& model, const std::vector<int32_t>& prompt, size_t n_rounds, size_t n_proposals) {
  const size_t width = size_t(model.entry("draft.0").hidden_width);
  const auto row = [](const std::vector<float>& rows, size_t cols, size_t i) { return std::span(rows).subspan(i * cols, cols); };
  const auto vocab = size_t(model.info().vocab);
  Speech out;
  Sequence main = model.sequence(), draft = model.draft_sequence(main, "draft.0");
  std::vector<float> hidden = rows_of(model, main, prompt, {}, false).hidden;  // of tokens that the draft has not seen followed
  std::vector<int32_t> followed(prompt.begin() + 1, prompt.end());
  {
    Sequence again = model.sequence();
    followed.push_back(best_of(rows_of(model, again, prompt, {}, false).logits));
  }
  out.text.push_back(followed.back());
  for (size_t round = 0; round < n_rounds; ++round) {
    std::vector<int32_t> said = {followed.back()};
    Rows drafted = rows_of(model, draft, followed, hidden, false);
    drafted.hidden.erase(drafted.hidden.begin(), drafted.hidden.end() - ptrdiff_t(width));
    said.push_back(best_of(drafted.logits));
    draft.begin();
    while (said.size() <= n_proposals) {
      const std::vector<int32_t> last = {said.back()};
      drafted = rows_of(model, draft, last, drafted.hidden);
      said.push_back(best_of(drafted.logits));
    }
    draft.rollback();
    main.begin();
    const Rows checked = rows_of(model, main, said);
    size_t n_kept = 0;
    followed.clear();
    for (;; ++n_kept) {
      followed.push_back(best_of(row(checked.logits, vocab, n_kept)));
      if (n_kept == n_proposals || followed.back() != said[n_kept + 1]) break;
    }
    main.commit(int64_t(n_kept) + 1);
    hidden.assign(checked.hidden.begin(), checked.hidden.begin() + ptrdiff_t((n_kept + 1) * width));
    out.text.insert(out.text.end(), followed.begin(), followed.end());
    out.kept.push_back(int32_t(n_kept));
  }
  return out;
}

struct Spread {
  const char* architecture;
  uint32_t tensor, stages, owners, parts;
  const char* backend = "cpu";
};
std::string name_of(const testing::TestParamInfo<Spread>& info) {
  const Spread& s = info.param;
  return std::string(s.architecture) + "_tp" + std::to_string(s.tensor) + "_pp" + std::to_string(s.stages) + "_ep" + std::to_string(s.owners) + "_" + s.backend;
}
std::ostream& operator<<(std::ostream& out, const Spread& s) { return out << name_of({s, 0}); }

ModelOptions options_of(const Spread& s, bool over_ranks) {
  ModelOptions options = options_for(cuttable(s.architecture));
  options.entries = {"draft.0"}, options.backend = s.backend, options.sum_parts = s.parts, options.max_sequences = 3;
  if (s.owners > 1) options.expert_parts = std::max(1u, s.tensor / s.owners);
  if (over_ranks) options.tensor_parallel = s.tensor, options.pipeline_parallel = s.stages, options.expert_parallel = s.owners;
  return options;
}

class Drafts : public testing::TestWithParam<Spread> {
 protected:
  static std::unique_ptr<Model> load(bool over_ranks) { return engine().load(options_of(GetParam(), over_ranks)); }
};

TEST_P(Drafts, GiveTheBitsOfOneDevice) {
  const auto one = load(false), ranks = load(true);
  EXPECT_EQ(ranks->info().n_ranks, std::max(GetParam().tensor, GetParam().owners) * GetParam().stages);
  const std::vector<float> expected = draft_trace(*one);
  EXPECT_EQ(n_different(draft_trace(*ranks), expected), 0u);
  EXPECT_EQ(n_different(draft_trace(*ranks), expected), 0u) << "again";
  EXPECT_EQ(n_different(trace(*ranks), trace(*one)), 0u) << "of the model beside it";
}

TEST_P(Drafts, AreTakenAndRefusedAsOnOneDevice) {
  const auto one = load(false), ranks = load(true);
  const std::vector<int32_t> prompt = one->tokenizer().encode("1 2 3 4 5 6 7 8 9 10 11 12 13");
  ASSERT_GT(prompt.size(), 4u);
  const Speech expected = speak(*one, prompt, 12, 3);
  EXPECT_EQ(speak(*ranks, prompt, 12, 3), expected);
  // And it is the text without drafts.
  Sequence plain = one->sequence();
  std::vector<int32_t> text, next = prompt;
  while (text.size() < expected.text.size()) {
    const Output out = one->forward(plain, next);
    next = {best_of(out.row(0))};
    text.push_back(next[0]);
  }
  EXPECT_EQ(expected.text, text);
  const auto n_kept = std::accumulate(expected.kept.begin(), expected.kept.end(), 0);
  EXPECT_GT(n_kept, 0) << "no proposal was kept";
  EXPECT_LT(n_kept, 36) << "no proposal was refused";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Drafts,
                         testing::Values(Spread{"qwen35", 2, 1, 1, 2}, Spread{"qwen35", 1, 2, 1, 1}, Spread{"qwen35", 1, 3, 1, 1}, Spread{"qwen35", 2, 2, 1, 2},
                                         Spread{"qwen35", 2, 2, 1, 2, "reference"}, Spread{"qwen35moe", 2, 1, 1, 2}, Spread{"qwen35moe", 1, 2, 1, 1},
                                         Spread{"qwen35moe", 2, 2, 1, 2}, Spread{"qwen35moe", 1, 1, 2, 1}, Spread{"qwen35moe", 1, 1, 4, 1}, Spread{"qwen35moe", 2, 1, 2, 2},
                                         Spread{"qwen35moe", 1, 2, 2, 1}, Spread{"step35", 2, 1, 1, 2}, Spread{"step35", 1, 2, 1, 1}, Spread{"step35", 2, 2, 1, 2},
                                         Spread{"step35", 1, 1, 2, 1}),
                         name_of);

// By whatever rank's list: the draft is with the last layer, on ranks 2 and 1, and the table that it gathers from is rank 0's.
TEST(DraftsOfLists, AreWithTheLastLayer) {
  const auto load = [](const char* list) {
    ModelOptions options = options_for(cuttable("qwen35"));
    options.entries = {"draft.0"}, options.tensor_layers = list, options.sum_parts = 2, options.max_sequences = 3;
    return engine().load(options);
  };
  EXPECT_EQ(n_different(draft_trace(*load("2-4@0,1;7@2,1")), draft_trace(*load(""))), 0u);
}

// Stages have each weight once, the draft's embeddings included, and the plan says where.
TEST(DraftsOfStages, TakeNoMoreThanOnOneDevice) {
  for (const char* architecture : {"qwen35moe", "step35"}) {  // with heads of their own
    ModelOptions options = options_for(model_path(architecture));
    options.entries = {"draft.0"};
    const auto one = engine().load(options);
    options.pipeline_parallel = 3;
    const auto three = engine().load(options);
    EXPECT_EQ(three->info().weight_bytes, one->info().weight_bytes) << architecture;
    EXPECT_EQ(three->info().store_bytes, one->info().store_bytes) << architecture;
    InspectOptions inspect;
    inspect.json = inspect.plan = true, inspect.model = options;
    const std::string plan = engine().inspect(options.path, inspect);
    EXPECT_NE(plan.find("\"entry\": \"draft.0\""), std::string::npos) << plan;
    EXPECT_NE(plan.find("nextn.enorm.weight"), std::string::npos) << plan;
  }
}

// Fast sums: close, and the same again.
TEST(DraftsOfFastSums, AreCloseToThoseOfOneDevice) {
  ModelOptions options = options_for(cuttable("qwen35"));
  options.entries = {"draft.0"}, options.precision = Precision::kExact, options.max_sequences = 3;
  const auto rows = [](Model& model) {
    const std::vector<int32_t> ids = tokens(1, 60, model);
    Sequence main = model.sequence(), draft = model.draft_sequence(main, "draft.0");
    const std::vector<float> hidden = rows_of(model, main, ids).hidden;
    return rows_of(model, draft, std::span(ids).subspan(1), std::span(hidden).first(hidden.size() / 60 * 59)).logits;
  };
  const std::vector<float> expected = rows(*engine().load(options));
  options.tensor_parallel = 2, options.fast_sums = true;
  const auto model = engine().load(options);
  const std::vector<float> found = rows(*model);
  EXPECT_LT(relative_error(found, expected), 1e-4);
  EXPECT_EQ(n_different(rows(*model), found), 0u);
}

TEST(DraftsOverRanks, AreRefusedAsOnOneDevice) {
  ModelOptions options = options_for(cuttable("qwen35"));
  options.entries = {"draft.0"}, options.tensor_parallel = 2;
  const auto model = engine().load(options);
  Sequence main = model->sequence(), draft = model->draft_sequence(main, "draft.0");
  const std::vector<int32_t> ids = tokens(1, 4, *model);
  const std::vector<float> hidden = rows_of(*model, main, ids).hidden;
  const auto forward = [&](std::span<const float> rows) {
    const Feed feed = {&draft, ids, {}, rows};
    model->forward({&feed, 1}, {});
  };
  EXPECT_THROW(model->draft_sequence(draft, "draft.0"), Error);
  EXPECT_THROW(model->draft_sequence(main, "draft.1"), Error);
  EXPECT_THROW(forward(std::span(hidden).first(hidden.size() - 1)), Error);
  EXPECT_THROW(draft.resume(ids), Error);
  const Sequence second = model->draft_sequence(main, "draft.0");
  EXPECT_THROW(model->draft_sequence(main, "draft.0"), Error);  // there is room for two
  EXPECT_EQ(draft.length(), 0);
  forward(hidden);
  EXPECT_EQ(draft.length(), 4);
}

// Every file and folder of models that the environment names and that has drafts: all formats and types of weights.
TEST(DraftsOfMore, GiveTheBitsOfOneDevice) {
  const char* root = std::getenv("TENON_TEST_MODELS");
  if (!root || !*root) GTEST_SKIP() << "set TENON_TEST_MODELS to a folder of models by architecture";
  size_t n = 0, n_cut = 0;
  for (const auto& architecture : std::filesystem::directory_iterator(root)) {
    if (!architecture.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(architecture)) {
      if (file.path().extension() != ".gguf" && !std::filesystem::exists(file.path() / "config.json")) continue;
      ModelOptions options = options_for(file.path());
      options.max_sequences = 3;
      const std::vector<std::string> entries = engine().load(options)->info().entries;
      if (std::ranges::find(entries, "draft.0") == entries.end()) continue;
      ++n;
      options.entries = {"draft.0"};
      const std::vector<float> expected = draft_trace(*engine().load(options));
      for (options.pipeline_parallel = 2; options.pipeline_parallel <= 3; ++options.pipeline_parallel)
        EXPECT_EQ(n_different(draft_trace(*engine().load(options)), expected), 0u) << file.path() << ", " << options.pipeline_parallel << " stages";
      options.sum_parts = 2, options.pipeline_parallel = 1;
      std::vector<float> in_parts;
      try {
        in_parts = draft_trace(*engine().load(options));
      } catch (const Error& error) {  // its types do not allow the cut
        EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
        EXPECT_NE(std::string(error.what()).find("cannot be cut in 2"), std::string::npos) << error.what();
        continue;
      }
      ++n_cut;
      options.tensor_parallel = 2;
      EXPECT_EQ(n_different(draft_trace(*engine().load(options)), in_parts), 0u) << file.path() << ", 2 ranks";
    }
  }
  EXPECT_GT(n, 0u) << root;
  EXPECT_GT(n_cut, 0u) << root;
}

}  // namespace
}  // namespace tenon
