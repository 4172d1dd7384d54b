// test_cuda_ranks: models over two devices of the cuda backend, by the collective nccl, against one device.
//
//   test_cuda_ranks [--plugins DIR]… [--data DIR] [--small] [gtest's options]
//
// Status 0: all passed; 77: there are no two devices.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/models.hpp"
#include "plugin/host_table.hpp"
#include "plugin/plugin_host.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

bool is_small = false;

// What a model answers: on an emulator, where a trace takes long, less of it.
std::vector<float> answers(Model& model) {
  if (!is_small) return trace(model);
  std::vector<float> out;
  const auto feed = [&](Sequence& sequence, uint32_t seed, size_t n) {
    const Output logits = model.forward(sequence, tokens(seed, n, model), /*all_rows=*/true);
    out.insert(out.end(), logits.logits.begin(), logits.logits.end());
  };
  Sequence sequence = model.sequence();
  feed(sequence, 1, 17);
  sequence.begin();
  feed(sequence, 2, 3);
  sequence.commit(2);
  feed(sequence, 3, 1);
  return out;
}

struct Case {
  const char* architecture;
  Precision precision;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.architecture << (c.precision == Precision::kExact ? ", exact" : ", default"); }

class Cards : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<Model> load(uint32_t n_ranks, uint32_t parts, const std::function<void(ModelOptions&)>& change = {}, Case c = GetParam()) {
    ModelOptions options = options_for(cuttable(c.architecture));
    options.backend = "cuda", options.precision = c.precision;
    options.tensor_parallel = n_ranks, options.sum_parts = parts, options.collective = "nccl";
    if (change) change(options);
    return engine().load(options);
  }
  static std::vector<int32_t> greedy(Model& model, size_t n, bool best_only = false) {
    Sequence sequence = model.sequence();
    std::vector<int32_t> out, fed = tokens(1, 20, model);
    for (size_t i = 0; i < n; ++i) {
      const std::vector<int32_t> rows = {int32_t(fed.size()) - 1};
      const Feed feed = {&sequence, fed, rows};
      ForwardOptions how;
      how.best_only = best_only;
      const Output found = model.forward({&feed, 1}, how);
      if (best_only) {
        fed = {found.best[0].id};
      } else {
        const auto row = found.row(0);
        fed = {int32_t(std::max_element(row.begin(), row.end()) - row.begin())};
      }
      out.push_back(fed[0]);
    }
    return out;
  }
  static size_t text_length() { return is_small ? 6 : 48; }
};

TEST_P(Cards, GiveTheBitsOfOneWithAsManyParts) {
  const std::vector<float> expected = answers(*load(1, 2));
  const auto model = load(2, 2);
  EXPECT_EQ(model->info().n_ranks, 2u);
  EXPECT_TRUE(model->info().captured) << "decode steps are not replayed";
  EXPECT_EQ(n_different(answers(*model), expected), 0u);
  EXPECT_EQ(n_different(answers(*model), expected), 0u) << "again";
}

TEST_P(Cards, GiveTheTextOfOne) {
  const auto two = load(2, 0);
  const std::vector<int32_t> expected = greedy(*load(1, 0), text_length());
  EXPECT_EQ(greedy(*two, text_length()), expected);
  EXPECT_EQ(greedy(*two, text_length(), /*best_only=*/true), expected) << "each card's best";
}

// A captured step with its exchanges, again and again: in a transaction that is taken back each time.
TEST_P(Cards, ReplaysRepeatBitForBit) {
  const auto model = load(2, 2);
  Sequence sequence = model->sequence();
  model->forward(sequence, tokens(1, 40, *model));
  const auto step = [&] {
    sequence.begin();
    const Output out = model->forward(sequence, tokens(2, 1, *model));
    std::vector<float> logits(out.logits.begin(), out.logits.end());
    sequence.rollback();
    return logits;
  };
  const std::vector<float> expected = step();
  int differ = 0;
  for (int i = 0; i < (is_small ? 10 : 1000); ++i) differ += n_different(step(), expected) != 0;
  EXPECT_EQ(differ, 0);
}

// Whichever way decode steps are run, launched or replayed.
TEST_P(Cards, ReplayedStepsEqualLaunchedOnes) {
  const auto launched = [](ModelOptions& options) { options.capture = false; };
  EXPECT_EQ(n_different(answers(*load(2, 2, launched)), answers(*load(2, 2))), 0u);
}

// NCCL adds up: close to the sums of one card, the same in every run. Rounding at default precision could tip over.
TEST_P(Cards, FastSumsAreCloseAndRepeat) {
  const auto one = load(1, 0), fast = load(2, 0, [](ModelOptions& options) { options.fast_sums = true; });
  EXPECT_TRUE(fast->info().captured);
  const std::vector<float> found = answers(*fast);
  for (int i = 0; i < (is_small ? 1 : 20); ++i) EXPECT_EQ(n_different(answers(*fast), found), 0u) << "run " << i;
  EXPECT_EQ(greedy(*fast, text_length()), greedy(*one, text_length()));
  if (GetParam().precision != Precision::kExact) return;
  EXPECT_LT(relative_error(found, answers(*one)), 1e-4);
}

TEST_P(Cards, StagesGiveTheBitsOfOne) {
  const std::vector<float> expected = answers(*load(1, 0));
  const auto model = load(1, 0, [](ModelOptions& options) { options.pipeline_parallel = 2; });
  EXPECT_EQ(model->info().n_ranks, 2u);
  EXPECT_TRUE(model->info().captured);
  EXPECT_EQ(n_different(answers(*model), expected), 0u);
  EXPECT_EQ(n_different(answers(*model), expected), 0u) << "again";
}

INSTANTIATE_TEST_SUITE_P(Two, Cards, testing::Values(Case{"gemma3", Precision::kExact}, Case{"gemma3", Precision::kDefault},
                                                     Case{"qwen35", Precision::kExact}, Case{"qwen35", Precision::kDefault}),
                         [](const auto& info) {
                           return std::string(info.param.architecture) + (info.param.precision == Precision::kExact ? "_exact" : "_default");
                         });

// A number that is no device, and one device for two ranks.
TEST(Numbers, AreRefusedWithWhatThereIs) {
  const auto refusal = [](std::vector<uint32_t> devices) -> std::string {
    ModelOptions options = options_for(cuttable("gemma3"));
    options.backend = "cuda", options.tensor_parallel = 2, options.devices = std::move(devices);
    try {
      engine().load(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({0, 97}).find("no device 97: backend cuda has "), std::string::npos) << refusal({0, 97});
  EXPECT_NE(refusal({1, 1}).find("device 1 for ranks 0 and 1"), std::string::npos) << refusal({1, 1});
  EXPECT_EQ(refusal({1, 0}), "") << "in another order";
}

class Failing : public Cards {
 protected:
  static constexpr Case kModel = {"gemma3", Precision::kExact};
  void SetUp() override { fail(0, -1, 0); }
  void TearDown() override { fail(0, -1, 0); }
  static void fail(int64_t rank, int64_t call, int64_t stall_ms) {
    plugin::set_config("faulty.rank", rank);
    plugin::set_config("faulty.fail_at", call);
    plugin::set_config("faulty.stall_ms", stall_ms);
  }
  static std::string said_by(const std::function<void()>& body, ErrorKind kind) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "";
  }
  static void expect_words(const std::string& said, const std::vector<std::string>& words) {
    for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << "\"" << word << "\" in: " << said;
  }
};

// Calls of probing and of the first steps. The other rank's kernels wait on its device for this one: they have to end.
TEST_F(Failing, ARankThatFailsEndsTheGroup) {
  const auto faulty = [](ModelOptions& options) { options.collective = "faulty_nccl"; };
  for (const int64_t rank : {0, 1})
    for (const int64_t call : {2, 3, 40, 43}) {
      fail(rank, call, is_small ? 10 : 500);
      const auto begin = std::chrono::steady_clock::now();
      std::unique_ptr<Model> model;
      std::string said = said_by([&] { model = load(2, 2, faulty, kModel); }, ErrorKind::kRuntime);
      if (model) {
        Sequence sequence = model->sequence();
        said = said_by([&] { model->forward(sequence, tokens(1, 3, *model)); }, ErrorKind::kRuntime);
        expect_words(said_by([&] { model->forward(sequence, tokens(1, 3, *model)); }, ErrorKind::kRuntime), {"the ranks have ended"});
      }
      expect_words(said, {"rank " + std::to_string(rank) + ":", "an injected failure"});
      model.reset();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      std::printf("rank %d fails at call %d: over in %.1f s: %s\n", int(rank), int(call), seconds, said.c_str());
    }
  EXPECT_EQ(said_by([] { load(2, 2, {}, kModel); }, ErrorKind::kRuntime), "") << "the devices are of no more use";
}

// A rank that says nothing for longer than it may: the other one's device is not waited for any more.
TEST_F(Failing, ARankThatIsSilentEndsTheGroup) {
  fail(1, 40, 1500);
  const auto model = load(2, 2, [](ModelOptions& options) { options.collective = "faulty_nccl", options.rank_timeout_ms = 500; }, kModel);
  Sequence sequence = model->sequence();
  expect_words(said_by([&] { model->forward(sequence, tokens(1, 3, *model)); }, ErrorKind::kRuntime), {"rank 0:", "did not answer within 0.5 s"});
  expect_words(said_by([&] { model->forward(sequence, tokens(1, 3, *model)); }, ErrorKind::kRuntime), {"the ranks have ended"});
}

}  // namespace
}  // namespace tenon

namespace {

uint32_t n_devices() {
  using namespace tenon;
  static plugin::PluginHost& host =
      *std::make_unique<plugin::PluginHost>(plugin::PluginHostOptions{parallel_test::places().plugins, false}).release();
  host.open_backend("cuda");
  for (const tenon_backend* backend : host.registry().backends) {
    if (std::string_view(backend->name.data, backend->name.size) != "cuda") continue;
    uint32_t n = 0;
    const tenon_device* const* list = nullptr;
    if (backend->devices(backend->self, &n, &list) == TENON_OK) return n;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  auto& places = tenon::parallel_test::places();
  bool own_plugins = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--small") {
      tenon::is_small = true;
    } else if (word == "--plugins" && i + 1 < count) {
      if (!std::exchange(own_plugins, true)) places.plugins.clear();
      places.plugins.push_back(words[++i]);
    } else if (word == "--data" && i + 1 < count) {
      places.data = words[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--plugins DIR]… [--data DIR] [--small]\n", words[0]);
      return 2;
    }
  }
  try {
    if (const uint32_t n = n_devices(); n < 2) {
      std::printf("%u device of the backend cuda: two are needed\n", n);
      return 77;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
