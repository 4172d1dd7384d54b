// Models over several ranks against one device with the same parts: the same bits, in both phases and through transactions.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <functional>

#include "models.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

struct Case {
  const char* architecture;
  const char* backend;
  Precision precision;
  uint32_t parts;  // of sums; ranks are its divisors
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.architecture) + "_" + info.param.backend + (info.param.precision == Precision::kExact ? "_exact_" : "_default_") +
         std::to_string(info.param.parts);
}
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.architecture << " on " << c.backend << ", " << c.parts << " parts"; }

class Ranks : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Model> load(uint32_t n_ranks, uint32_t parts, const std::function<void(ModelOptions&)>& change = {}) const {
    ModelOptions options = options_for(cuttable(GetParam().architecture));
    options.backend = GetParam().backend, options.precision = GetParam().precision;
    options.tensor_parallel = n_ranks, options.sum_parts = parts;
    if (change) change(options);
    return engine().load(options);
  }
};

TEST_P(Ranks, GiveTheBitsOfOneDeviceWithAsManyParts) {
  const uint32_t parts = GetParam().parts;
  const std::vector<float> expected = trace(*load(1, parts));
  for (uint32_t n = 2; n <= parts; ++n) {
    if (parts % n) continue;
    const auto model = load(n, parts);
    EXPECT_EQ(model->info().n_ranks, n);
    EXPECT_EQ(n_different(trace(*model), expected), 0u) << "with " << n << " ranks";
    EXPECT_EQ(n_different(trace(*model), expected), 0u) << "with " << n << " ranks, again";
  }
  EXPECT_EQ(n_different(trace(*load(parts, parts, [](ModelOptions& options) { options.poison = true; })), expected), 0u) << "with what must not be read poisoned";
  for (const uint32_t workers : {2u, 3u}) {
    const auto more = [&](ModelOptions& options) { options.threads = workers * parts; };
    EXPECT_EQ(n_different(trace(*load(parts, parts, more)), expected), 0u) << workers << " workers a rank";
  }
}

// The prefix cache follows a sequence; where a transaction's kept rows reach a multiple of 64 it takes a step of its own, to
// keep the recurrent state there.
TEST_P(Ranks, KeepCheckpointsThatTransactionsCross) {
  const auto answers = [](Model& model) {
    std::vector<float> out;
    for (const int64_t kept : {2, 5}) {  // up to the multiple, and beyond
      Sequence sequence = model.sequence();
      std::vector<int32_t> text = tokens(1, 62, model);
      sequence.resume(text);
      model.forward(sequence, text);
      sequence.begin();
      const std::vector<int32_t> more = tokens(2, 6, model);
      model.forward(sequence, more);
      sequence.commit(kept);
      text.insert(text.end(), more.begin(), more.begin() + kept);
      for (const float value : model.forward(sequence, tokens(3, 2, model)).logits) out.push_back(value);
      const std::vector<int32_t> rest = tokens(4, 40, model);
      text.insert(text.end(), rest.begin(), rest.end());
      Sequence again = model.sequence();
      const int64_t reused = again.resume(text).reused;
      EXPECT_EQ(reused, 64);
      const std::vector<int32_t> fed(text.begin() + reused, text.end());
      for (const float value : model.forward(again, fed).logits) out.push_back(value);
    }
    return out;
  };
  const uint32_t parts = GetParam().parts;
  const auto cached = [](ModelOptions& options) { options.prefix_cache_bytes = 1 << 26; };
  const std::vector<float> expected = answers(*load(1, parts, cached));
  EXPECT_EQ(n_different(answers(*load(parts, parts, cached)), expected), 0u);
}

// Rows in place of embeddings, of which some see each other both ways where the model has that.
TEST_P(Ranks, TakeRowsInPlaceOfEmbeddings) {
  const std::string architecture = GetParam().architecture;
  if (architecture == "gemma4e") GTEST_SKIP() << "it takes no such rows";
  const bool sees_spans = architecture.starts_with("gemma");
  const auto with_rows = [](ModelOptions& options) { options.overlay = true; };
  const auto answers = [sees_spans](Model& model, bool with) {
    const int64_t width = model.entry("main").overlay_width;
    EXPECT_GT(width, 0);
    const std::vector<int32_t> positions = {2, 3, 4, 5, 70}, spans = {0, 0, 0, 0, -1};
    std::vector<float> rows(positions.size() * size_t(width));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(int(i * 2654435761u % 2001) - 1000) * 1e-3f;
    const std::vector<int32_t> text = tokens(1, 80, model);
    const std::vector<int32_t> wanted = {3, 5, 6, 79};
    Sequence sequence = model.sequence();
    Feed feed = {&sequence, text, wanted, {}, {}};
    if (with) feed.overlay = {rows, positions, sees_spans ? std::span<const int32_t>(spans) : std::span<const int32_t>()};
    const Output out = model.forward({&feed, 1}, {});
    return std::vector<float>(out.logits.begin(), out.logits.end());
  };
  const uint32_t parts = GetParam().parts;
  const std::vector<float> expected = answers(*load(1, parts, with_rows), true);
  const auto model = load(parts, parts, with_rows);
  EXPECT_EQ(n_different(answers(*model, true), expected), 0u);
  EXPECT_NE(n_different(answers(*model, false), expected), 0u);
  if (GetParam().precision != Precision::kExact) return;
  EXPECT_LT(relative_error(expected, answers(*load(1, 1, with_rows), true)), 1e-4);
}

// A sum in parts is the same sum but for the order of its additions. At default precision the rounding of values to come
// could tip over.
class SumsInParts : public Ranks {};
TEST_P(SumsInParts, AreCloseToSumsInOnePart) {
  const std::vector<float> whole = trace(*load(1, 1)), parts = trace(*load(1, GetParam().parts));
  ASSERT_EQ(whole.size(), parts.size());
  const double error = relative_error(parts, whole);
  EXPECT_LT(error, 1e-4);
  EXPECT_GT(error, 0) << "no sum was cut";
}

// Sums that each rank begins with its own parts: close to those of one part, the same in every run, and whether the collective
// adds up ("threads") or the core does ("faulty"). On two ranks of two parts each they are grouped in another way than in order.
class FastSums : public Ranks {
 protected:
  std::unique_ptr<Model> load_fast(uint32_t n_ranks, uint32_t parts, const char* collective = "threads") const {
    return load(n_ranks, parts, [&](ModelOptions& options) { options.fast_sums = true, options.collective = collective; });
  }
  static std::vector<int32_t> greedy(Model& model) {
    Sequence sequence = model.sequence();
    std::vector<int32_t> out, fed = tokens(1, 20, model);
    for (int i = 0; i < 24; ++i) {
      const auto row = model.forward(sequence, fed).row(0);
      fed = {int32_t(std::max_element(row.begin(), row.end()) - row.begin())};
      out.push_back(fed[0]);
    }
    return out;
  }
};

TEST_P(FastSums, AreCloseToSumsInOnePartAndRepeat) {
  const auto one = load(1, 1), fast = load_fast(2, GetParam().parts);
  const std::vector<float> found = trace(*fast);
  EXPECT_LT(relative_error(found, trace(*one)), 1e-4);
  EXPECT_EQ(n_different(trace(*fast), found), 0u) << "again";
  EXPECT_EQ(n_different(trace(*load_fast(2, GetParam().parts)), found), 0u) << "in another model";
  EXPECT_EQ(n_different(trace(*load_fast(2, GetParam().parts, "faulty")), found), 0u) << "added by the core";
  EXPECT_EQ(greedy(*fast), greedy(*one));
  const auto staged = load(2, GetParam().parts, [](ModelOptions& options) { options.fast_sums = true, options.pipeline_parallel = 2; });
  EXPECT_EQ(staged->info().n_ranks, 4u);
  EXPECT_EQ(n_different(trace(*staged), found), 0u) << "where only some ranks share a layer";
  if (GetParam().parts == 2) return;  // one part a rank: in order
  EXPECT_NE(n_different(trace(*load(2, GetParam().parts)), found), 0u) << "in order";
}

std::vector<Case> cases(bool only_exact) {
  std::vector<Case> out;
  for (const char* architecture : {"gemma3", "gemma4", "gemma4e", "llama", "qwen3", "qwen35", "qwen35moe", "step35"}) {
    if (!only_exact) out.push_back({architecture, "cpu", Precision::kDefault, 2});
    out.push_back({architecture, "cpu", Precision::kExact, 2});
  }
  if (only_exact) return out;
  for (const char* architecture : {"gemma3", "qwen35moe"}) out.push_back({architecture, "reference", Precision::kExact, 2});
  for (const char* architecture : {"llama", "qwen3"}) out.push_back({architecture, "cpu", Precision::kDefault, 4});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Tensor, Ranks, testing::ValuesIn(cases(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Tensor, FastSums, testing::Values(Case{"gemma3", "cpu", Precision::kExact, 2}, Case{"qwen35", "cpu", Precision::kExact, 2},
                                                           Case{"qwen35moe", "cpu", Precision::kExact, 2}, Case{"llama", "cpu", Precision::kExact, 4},
                                                           Case{"qwen3", "cpu", Precision::kExact, 4}), name_of);
INSTANTIATE_TEST_SUITE_P(Tensor, SumsInParts, testing::ValuesIn(cases(true)), name_of);

// Per layer two sums over the width; the logits are wanted on rank 0 alone, which is shown.
TEST(Plan, SaysWhatARankSends) {
  InspectOptions options;
  options.json = options.plan = true, options.model = options_for("");
  options.model.tensor_parallel = 2;
  const std::string path = cuttable("qwen3");
  const ModelInfo info = engine().load(options_for(path))->info();
  const int64_t bytes = info.n_layers * 2 * info.width * 4;
  const std::string plan = engine().inspect(path, options);
  EXPECT_NE(plan.find("\"sent_bytes_a_row\": " + std::to_string(bytes)), std::string::npos) << plan << "expected " << bytes;
}

// What cannot be cut is refused with the weight, the numbers and the rule.
struct Refused {
  const char *name, *architecture;
  bool as_it_is;  // in the file's own types
  uint32_t ranks, parts;
  std::vector<std::string> words;
};
class Refusals : public testing::TestWithParam<Refused> {};

TEST_P(Refusals, NameTheRule) {
  const Refused& refused = GetParam();
  ModelOptions options = options_for(refused.as_it_is ? model_path(refused.architecture) : cuttable(refused.architecture));
  options.tensor_parallel = refused.ranks, options.sum_parts = refused.parts;
  if (refused.ranks == 2 && refused.parts == 7) options.collective = "nobody";
  if (refused.ranks == 2 && refused.parts == 8) options.backend = "far", options.sum_parts = 0;
  try {
    engine().load(options);
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    for (const std::string& word : refused.words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in " << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tensor, Refusals,
    testing::Values(Refused{"Heads", "gemma3", false, 4, 0, {"blk.0.attn_q.weight", "2 units of 128", "4"}},
                    Refused{"Blocks", "qwen35", true, 2, 0, {"blk.0.ssm_out.weight, columns", "the border at 128 is no multiple of 256, a block of q4_k"}},
                    Refused{"InnerWidth", "gemma4moe", false, 2, 0, {"blk.0.ffn_down_exps.weight, columns", "96", "3 units of 32"}},
                    Refused{"Parts", "gemma3", false, 2, 3, {"3 parts", "2 ranks"}},
                    Refused{"OnePart", "gemma3", false, 2, 1, {"1 parts", "2 ranks"}},
                    Refused{"Many", "gemma3", false, 65, 0, {"1 to 64", "65"}},
                    Refused{"Collective", "gemma3", false, 2, 7, {"no collective \"nobody\"", "threads"}},
                    Refused{"FarMemory", "gemma3", false, 2, 8, {"collective threads", "memory of the host", "far"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tenon
