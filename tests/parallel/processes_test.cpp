// Ranks that follow rank 0's messages, as processes do. Here each is a thread with an engine of its own.
#include <gtest/gtest.h>
#include <tenon/error.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "models.hpp"
#include "plugin/host_table.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

// The ranks but 0, each with its report once it is joined.
class Others {
 public:
  Others(uint32_t n_ranks, uint32_t timeout_ms) : reports(n_ranks - 1) {
    static int64_t group = 0;
    plugin::set_config("placed.group", ++group);
    plugin::set_config("placed.n", int64_t(n_ranks));
    for (uint32_t rank = 1; rank < n_ranks; ++rank)
      threads_.emplace_back([this, rank, timeout_ms] {
        plugin::set_config("placed." + std::to_string(gettid()), int64_t(rank));
        Engine own({{TENON_TEST_PLUGINS, TENON_TEST_FIXTURES}, false});
        reports[rank - 1] = own.follow({"placed", timeout_ms});
      });
  }
  ~Others() { join(); }
  void join() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  std::vector<FollowReport> reports;

 private:
  std::vector<std::thread> threads_;
};

class Processes : public testing::Test {
 protected:
  void SetUp() override { configure(0, -1); }
  static void configure(int64_t rank, int64_t fail_at) {
    plugin::set_config("faulty.rank", rank);
    plugin::set_config("faulty.fail_at", fail_at);
    plugin::set_config("faulty.delay_us", int64_t(0));
    plugin::set_config("faulty.lies_to", int64_t(-1));
  }
  static ModelOptions placed(const char* architecture, uint32_t n_ranks, uint32_t parts) {
    ModelOptions options = options_for(cuttable(architecture));
    options.tensor_parallel = n_ranks, options.sum_parts = parts, options.collective = "placed", options.rank_timeout_ms = 20'000;
    return options;
  }
  static std::string refusal(Model& model, Sequence& sequence, size_t n) {
    try {
      model.forward(sequence, tokens(1, n, model));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Processes, GiveTheBitsOfOneDevice) {
  for (const auto& [architecture, n] : {std::pair{"qwen3", 4u}, {"qwen35", 2u}}) {
    ModelOptions alone = placed(architecture, 1, n);
    alone.collective = "threads";
    const std::vector<float> expected = trace(*engine().load(alone));
    Others others(n, 20'000);
    {
      const auto model = engine().load(placed(architecture, n, n));
      EXPECT_EQ(model->info().n_ranks, n);
      const std::vector<float> found = trace(*model);
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << architecture;
      EXPECT_GT(model->sent_bytes(), 0u);
    }
    others.join();
    for (const FollowReport& report : others.reports) EXPECT_FALSE(report.failure) << report.failure->what();
  }
}

// A draft's sequences go by messages as the model's do.
TEST_F(Processes, DraftAsOneDevice) {
  const auto rows = [](Model& model) {
    const std::vector<int32_t> ids = tokens(1, 60, model);
    const std::span<const int32_t> all = ids;
    std::map<std::string, std::vector<float>> tapped;
    ForwardOptions with_rows;
    with_rows.taps = {"draft.hidden"}, with_rows.tapped = &tapped;
    Sequence main = model.sequence(), draft = model.draft_sequence(main, "draft.0");
    const Feed prompt = {&main, all, {}};
    model.forward({&prompt, 1}, with_rows);
    const std::span<const float> hidden = tapped.at("draft.hidden");
    const size_t width = size_t(model.entry("draft.0").hidden_width);
    std::vector<float> out;
    const auto feed = [&](Sequence& sequence, size_t begin, size_t n) {
      const std::vector<int32_t> last = {int32_t(n) - 1};
      const Feed one = {&sequence, all.subspan(begin + 1, n), last, hidden.subspan(begin * width, n * width)};
      const Output found = model.forward({&one, 1}, {});
      out.insert(out.end(), found.logits.begin(), found.logits.end());
    };
    feed(draft, 0, 40);
    draft.begin();
    feed(draft, 41, 5);
    draft.rollback();
    draft.begin();
    feed(draft, 40, 5);
    draft.commit(2);
    Sequence copy = draft.fork();
    feed(copy, 42, 3);
    copy.restore(draft.save());
    feed(copy, 42, 7);
    return out;
  };
  for (const auto& [tensor, stages] : {std::pair{2u, 1u}, {1u, 2u}, {2u, 2u}}) {
    ModelOptions options = placed("qwen35", 1, 2);
    options.entries = {"draft.0"}, options.collective = "threads";
    const std::vector<float> expected = rows(*engine().load(options));
    Others others(tensor * stages, 20'000);
    options.collective = "placed", options.tensor_parallel = tensor, options.pipeline_parallel = stages;
    EXPECT_EQ(n_different(rows(*engine().load(options)), expected), 0u) << tensor << " ranks, " << stages << " stages";
    others.join();
    for (const FollowReport& report : others.reports) EXPECT_FALSE(report.failure) << report.failure->what();
  }
}

// What each found comes with its answer.
TEST_F(Processes, FindTheBestTokenTogether) {
  Others others(4, 20'000);
  {
    const auto model = engine().load(placed("qwen3", 4, 4));
    Sequence whole = model->sequence(), apart = model->sequence();
    const std::vector<int32_t> fed = tokens(1, 20, *model), rows = {3, 7, 19};
    const Feed one = {&whole, fed, rows}, other = {&apart, fed, rows};
    std::vector<int32_t> expected[2];  // the best, and those without them
    std::vector<IdRange> never[2];
    const Output all = model->forward({&one, 1});
    for (const bool without : {false, true})
      for (int64_t r = 0; r < all.rows; ++r) {
        std::vector<float> row(all.row(r).begin(), all.row(r).end());
        for (const IdRange& ids : never[without]) row[size_t(ids.begin)] = -1e30f;
        expected[without].push_back(int32_t(std::max_element(row.begin(), row.end()) - row.begin()));
        if (!without) never[1].push_back({expected[0].back(), expected[0].back() + 1});
      }
    for (const bool without : {false, true}) {
      apart.truncate(0);
      ForwardOptions how;
      how.best_only = true, how.never = never[without];
      std::vector<int32_t> found;
      for (const BestToken& best : model->forward({&other, 1}, how).best) found.push_back(best.id);
      EXPECT_EQ(found, expected[without]);
    }
  }
  others.join();
  for (const FollowReport& report : others.reports) EXPECT_FALSE(report.failure) << report.failure->what();
}

TEST_F(Processes, RefuseAlikeAndGoOn) {
  Others others(2, 20'000);
  {
    const auto model = engine().load(placed("qwen3", 2, 2));
    Sequence sequence = model->sequence();
    model->forward(sequence, tokens(1, 20, *model));
    EXPECT_THROW(model->forward(sequence, std::vector<int32_t>{-1}), Error);
    EXPECT_THROW(model->forward(sequence, tokens(1, 300, *model)), Error);
    EXPECT_THROW(sequence.rollback(), Error);
    ForwardOptions stopped;
    stopped.cancelled = [n = 0]() mutable { return ++n == 2; };
    const auto ids = tokens(2, 130, *model);
    const Feed feed = {&sequence, ids, {}};
    EXPECT_THROW(model->forward({&feed, 1}, stopped), Error);
    const int64_t kept = sequence.length();
    EXPECT_GT(kept, 20);
    EXPECT_LT(kept, 150);
    EXPECT_EQ(sequence.truncate(20), 20);
    EXPECT_EQ(model->forward(sequence, tokens(3, 3, *model)).rows, 1);
    Sequence second = model->sequence();
    EXPECT_THROW(model->sequence(), Error);  // there is room for two
    { const Sequence gone = std::move(second); }
    EXPECT_NO_THROW(model->sequence());
  }
  others.join();
  EXPECT_FALSE(others.reports[0].failure) << others.reports[0].failure->what();
}

TEST_F(Processes, RefuseAPlanOfAnotherSize) {
  Others others(2, 20'000);
  try {
    engine().load(placed("qwen3", 4, 4));
    ADD_FAILURE() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "the plan has 4 ranks, but 2 processes were started: mpirun -n 4 starts as many, --tensor-parallel 2 alone has as many ranks");
  }
  others.join();
  EXPECT_TRUE(others.reports[0].failure);
  EXPECT_TRUE(others.reports[0].is_known);
}

TEST_F(Processes, EndWhereRank0CannotLoad) {
  Others others(2, 20'000);
  ModelOptions options = placed("qwen3", 2, 2);
  options.path = "/nowhere.gguf";
  try {
    engine().load(options);
    ADD_FAILURE() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile) << error.what();
  }
  others.join();
  EXPECT_TRUE(others.reports[0].is_known);
}

// Whichever call of whichever rank fails, in loading or in a step: rank 0 throws it with the rank's number or its own message,
// nothing hangs, and the other rank ends.
TEST_F(Processes, AFailureAtAnyCallEndsThem) {
  int n_failed = 0;
  for (int64_t rank = 0; rank < 2; ++rank)
    for (int64_t call = 0;; ++call) {
      configure(rank, call);
      Others others(2, 5000);
      std::string said;
      try {
        ModelOptions options = placed("qwen3", 2, 2);
        options.rank_timeout_ms = 5000;
        const auto model = engine().load(options);
        Sequence sequence = model->sequence();
        model->forward(sequence, tokens(1, 3, *model));
      } catch (const Error& error) {
        said = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kRuntime) << said;
      }
      others.join();
      if (said.empty() && !others.reports[0].failure) break;  // there are fewer calls
      ++n_failed;
      // The last words, when rank 0 drops the model, fail only for the others.
      EXPECT_TRUE(said.empty() || rank == 0 || said.find("rank 1") != std::string::npos) << "call " << call << " of rank " << rank << ": " << said;
    }
  EXPECT_GT(n_failed, 40);
}

// Bytes that arrive changed are noticed before the model is used.
TEST_F(Processes, HearWhatWasSaid) {
  for (const int64_t to : {0, 1}) {
    plugin::set_config("faulty.lies_to", to);
    plugin::set_config("faulty.lies_from", int64_t(65536));
    Others others(2, 5000);
    try {
      engine().load(placed("qwen3", 2, 2));
      ADD_FAILURE() << "it was loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime) << error.what();
      const std::string wanted = "of 65536 bytes from rank " + std::to_string(1 - to) + " to rank " + std::to_string(to) + ", 1 of 16384 words";
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
    others.join();
    EXPECT_TRUE(others.reports[0].failure);
  }
}

// What rank 0 alone refuses, between two slices of an answer: the other rank waits for it in an exchange until it is woken.
TEST_F(Processes, ARefusalOfRank0AloneEndsThem) {
  Others others(2, 4000);
  {
    ModelOptions options = placed("qwen3", 2, 2);
    options.rank_timeout_ms = 4000, options.max_decode_rows = 15;
    const auto model = engine().load(options);
    Sequence sequence = model->sequence();
    const auto ids = tokens(1, 60, *model);
    std::vector<int32_t> all(ids.size());
    std::iota(all.begin(), all.end(), 0);
    ForwardOptions refusing;
    refusing.on_row = [](int64_t, std::span<const float>) { throw Error(ErrorKind::kCapacity, "no room for a row"); };
    const Feed feed = {&sequence, ids, all};
    try {
      model->forward({&feed, 1}, refusing);
      ADD_FAILURE() << "it went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCapacity) << error.what();
      EXPECT_NE(std::string(error.what()).find("no room for a row"), std::string::npos) << error.what();
    }
    EXPECT_NE(refusal(*model, sequence, 1).find("the ranks have ended"), std::string::npos);
  }
  others.join();
  ASSERT_TRUE(others.reports[0].failure);
  EXPECT_TRUE(others.reports[0].is_known) << others.reports[0].failure->what();
}

// A rank that says nothing for longer than it may: the other one names it and ends, which the late one then hears.
TEST_F(Processes, ASilentRankIsNamed) {
  Others others(2, 800);
  ModelOptions options = placed("qwen3", 2, 2);
  options.rank_timeout_ms = 800;
  const auto model = engine().load(options);
  Sequence sequence = model->sequence();
  ForwardOptions late;
  late.cancelled = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    return false;
  };
  const auto ids = tokens(1, 3, *model);
  const Feed feed = {&sequence, ids, {}};
  EXPECT_THROW(model->forward({&feed, 1}, late), Error);
  EXPECT_NE(refusal(*model, sequence, 1).find("the ranks have ended"), std::string::npos);
  others.join();
  ASSERT_TRUE(others.reports[0].failure);
  EXPECT_NE(std::string(others.reports[0].failure->what()).find("rank 0 did not answer"), std::string::npos) << others.reports[0].failure->what();
}

}  // namespace
}  // namespace tenon
