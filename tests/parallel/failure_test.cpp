// Ranks that are late, and ranks that fail.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "models.hpp"
#include "plugin/host_table.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

class Failure : public testing::Test {
 protected:
  void SetUp() override {
    configure(0, -1, 0);
    lie(-1, 0);
    for (const char* key : {"faulty.reverse", "faulty.ahead", "faulty.sends"}) plugin::set_config(key, int64_t(0));
  }
  static void lie(int64_t to, int64_t from_bytes) {
    plugin::set_config("faulty.lies_to", to);
    plugin::set_config("faulty.lies_from", from_bytes);
  }
  static void configure(int64_t rank, int64_t fail_at, int64_t delay_us) {
    plugin::set_config("faulty.rank", rank);
    plugin::set_config("faulty.fail_at", fail_at);
    plugin::set_config("faulty.delay_us", delay_us);
  }
  static std::unique_ptr<Model> load(uint32_t tensor, const char* collective, uint32_t stages = 1, uint32_t owners = 0) {
    ModelOptions options = options_for(cuttable(owners ? "qwen35moe" : "qwen3"));
    options.tensor_parallel = tensor, options.pipeline_parallel = stages, options.sum_parts = owners ? 2 : 4, options.collective = collective;
    if (owners) options.expert_parallel = owners, options.expert_parts = 1;
    return engine().load(options);
  }
  static std::string load_refusal(uint32_t tensor, uint32_t stages = 1, uint32_t owners = 0) {
    try {
      load(tensor, "faulty", stages, owners);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime) << error.what();
      return error.what();
    }
    return "";
  }
  static std::string refusal(Model& model, Sequence& sequence, size_t n) {
    try {
      model.forward(sequence, tokens(1, n, model));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime) << error.what();
      return error.what();
    }
    return "";
  }
};

TEST_F(Failure, LateRanksGiveTheSameBits) {
  const std::vector<float> expected = trace(*load(1, "threads"));
  configure(0, -1, 40);
  for (const int64_t reverse : {0, 1}) {
    plugin::set_config("faulty.reverse", reverse);
    for (const auto& [tensor, stages] : {std::pair{4u, 1u}, {2u, 2u}, {1u, 2u}}) {
      const std::vector<float> found = trace(*load(tensor, "faulty", stages));
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << tensor << " ranks, " << stages << " stages";
    }
  }
}

TEST_F(Failure, LateOwnersOfExpertsGiveTheSameBits) {
  const std::vector<float> expected = trace(*load(1, "threads", 1, 1));
  configure(0, -1, 40);
  for (const int64_t reverse : {0, 1}) {
    plugin::set_config("faulty.reverse", reverse);
    for (const auto& [tensor, owners] : {std::pair{2u, 2u}, {1u, 4u}})
      EXPECT_EQ(n_different(trace(*load(tensor, "faulty", 1, owners)), expected), 0u) << tensor << " ranks, " << owners << " owners";
  }
}

// Stage 0 goes on with the next chunks while stage 1 has not begun with this one: here it must, or stage 1 never begins.
TEST_F(Failure, AStageGoesOnWhileTheNextOneIsBusy) {
  const auto prefill = [](Model& model) {
    Sequence sequence = model.sequence();
    const Output out = model.forward(sequence, tokens(1, 256, model));
    return std::vector<float>(out.logits.begin(), out.logits.end());
  };
  const std::vector<float> expected = prefill(*load(1, "threads"));
  for (const int64_t ahead : {1, 2}) {
    plugin::set_config("faulty.ahead", ahead);
    plugin::set_config("faulty.sends", int64_t(4));  // chunks of 64
    const std::vector<float> found = prefill(*load(1, "faulty", 2));
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << ahead << " chunks ahead";
  }
}

// Whichever call of whichever rank fails: while the model is loaded, as ranks are probed then, or in a step, which fails with
// the rank's name. Nothing hangs, and every later step fails too.
TEST_F(Failure, AFailureAtAnyCallEndsTheGroup) {
  int n_failed = 0;
  struct Spread {
    uint32_t tensor, stages, owners;  // of experts; 0: a model without
    int64_t rank;
  };
  for (const auto& [tensor, stages, owners, rank] :
       {Spread{2, 1, 0, 0}, {2, 1, 0, 1}, {1, 2, 0, 0}, {1, 2, 0, 1}, {2, 2, 0, 0}, {2, 2, 0, 3}, {2, 1, 2, 1}, {1, 1, 2, 0}, {1, 1, 2, 1}}) {
    const int64_t probe_calls = 12 * (std::max(tensor, owners) * stages - 1);  // three sizes to each other rank, each a group of a send and a recv
    for (int64_t call = 0;; ++call) {
      configure(rank, call, 0);
      const auto expect_named = [&](const std::string& said) {
        EXPECT_NE(said.find("rank " + std::to_string(rank) + ":"), std::string::npos) << said;
        EXPECT_NE(said.find("an injected failure"), std::string::npos) << said;
      };
      if (call < probe_calls) {
        expect_named(load_refusal(tensor, stages, owners));
        continue;
      }
      const auto model = load(tensor, "faulty", stages, owners);
      Sequence sequence = model->sequence();
      const std::string said = refusal(*model, sequence, 3);
      if (said.empty()) break;  // the step has fewer calls
      ++n_failed;
      expect_named(said);
      // What is kept of a recurrent layer is of no more use; else it is the ranks that have ended.
      EXPECT_NE(refusal(*model, sequence, 1).find(owners ? "this sequence has ended" : "the ranks have ended"), std::string::npos);
    }
  }
  EXPECT_GT(n_failed, 200);
}

// The same of a draft's calls: the ranks end, and with them the draft and the model that it is for.
TEST_F(Failure, AFailureAtADraftsCallEndsTheGroup) {
  struct Spread {
    uint32_t tensor, stages;
    int64_t rank;
  };
  enum class Place { kMain, kDraft, kNowhere };
  const auto failed_at = [](const Spread& spread, int64_t call) {
    configure(spread.rank, call, 0);
    ModelOptions options = options_for(cuttable("step35"));
    options.tensor_parallel = spread.tensor, options.pipeline_parallel = spread.stages, options.sum_parts = 2, options.collective = "faulty";
    options.entries = {"draft.0"};
    const auto model = engine().load(options);
    Sequence main = model->sequence(), draft = model->draft_sequence(main, "draft.0");
    const auto ids = tokens(1, 3, *model);
    const std::vector<float> hidden(ids.size() * size_t(model->entry("draft.0").hidden_width), 0.5f);
    const std::vector<int32_t> last = {2};
    Place place = Place::kMain;
    std::string said;
    try {
      model->forward(main, ids);
      place = Place::kDraft;
      draft.begin();
      const Feed feed = {&draft, ids, last, hidden};
      model->forward({&feed, 1}, {});
      return Place::kNowhere;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime) << error.what();
      said = error.what();
    }
    EXPECT_NE(said.find("rank " + std::to_string(spread.rank) + ":"), std::string::npos) << said;
    EXPECT_NE(said.find("an injected failure"), std::string::npos) << said;
    EXPECT_NE(refusal(*model, main, 1).find("the ranks have ended"), std::string::npos);
    EXPECT_THROW(draft.rollback(), Error);
    EXPECT_THROW(model->draft_sequence(main, "draft.0"), Error);
    return place;
  };
  for (const Spread& spread : {Spread{2, 1, 1}, {1, 2, 0}, {1, 2, 1}, {2, 2, 3}}) {
    int64_t first = 12 * (spread.tensor * spread.stages - 1), end = first + 1024;  // the draft's first call is behind the probe's and main's
    while (first < end) {
      const int64_t middle = (first + end) / 2;
      if (failed_at(spread, middle) == Place::kMain) first = middle + 1;
      else end = middle;
    }
    int n_failed = 0;
    for (; failed_at(spread, first + n_failed) == Place::kDraft; ++n_failed) {}
    EXPECT_GT(n_failed, 0) << spread.tensor << " ranks, " << spread.stages << " stages, rank " << spread.rank;
  }
}

// Bytes that arrive changed are noticed before the model is used: short messages, and long ones alone.
TEST_F(Failure, ARankThatHearsOtherThingsThanWereSaidIsNamed) {
  struct Lie {
    int64_t to, from_bytes;
    std::vector<std::string> words;
  };
  const Lie lies[] = {{0, 0, {"rank 0:", "16384 bytes from rank 1 to rank 0", "1 of 4096 words"}},
                      {1, 1 << 20, {"rank 1:", "1048576 bytes from rank 0 to rank 1", "1 of 262144 words"}}};
  for (const Lie& one : lies) {
    lie(one.to, one.from_bytes);
    const std::string said = load_refusal(2);
    for (const std::string& word : one.words) EXPECT_NE(said.find(word), std::string::npos) << word << " in " << said;
  }
  lie(3, 65536);
  EXPECT_NE(load_refusal(4).find("to rank 3"), std::string::npos);
  lie(-1, 0);
  EXPECT_EQ(load_refusal(4), "");
}

// What every rank refuses alike leaves the group as it was.
TEST_F(Failure, WrongUseDoesNotEndTheGroup) {
  const auto model = load(2, "threads");
  Sequence sequence = model->sequence();
  model->forward(sequence, tokens(1, 20, *model));
  EXPECT_THROW(model->forward(sequence, std::vector<int32_t>{-1}), Error);
  EXPECT_THROW(model->forward(sequence, tokens(1, 300, *model)), Error);
  ForwardOptions stopped;
  stopped.cancelled = [] { return true; };
  const auto ids = tokens(2, 3, *model);
  const Feed feed = {&sequence, ids, {}};
  EXPECT_THROW(model->forward({&feed, 1}, stopped), Error);
  const Output out = model->forward(sequence, ids);
  EXPECT_EQ(out.rows, 1);
  EXPECT_EQ(sequence.length(), 23);
}

// An interruption between the slices of a long answer ends sequences with recurrent state, on every rank alike; resume()
// starts such a sequence anew, as it does on one device.
TEST_F(Failure, ResumeStartsAnEndedSequenceAnew) {
  for (const uint32_t n_ranks : {1u, 2u}) {
    ModelOptions options = options_for(cuttable("qwen35"));
    options.tensor_parallel = n_ranks, options.sum_parts = 2, options.prefix_cache_bytes = 1 << 24, options.max_decode_rows = 15;
    const auto model = engine().load(options);
    const auto prompt = tokens(1, 60, *model);
    std::vector<int32_t> all(prompt.size());
    std::iota(all.begin(), all.end(), 0);
    Sequence sequence = model->sequence(), other = model->sequence();
    sequence.resume(prompt);
    ForwardOptions stopped;
    stopped.cancelled = [n = 0]() mutable { return ++n == 2; };
    const Feed feed = {&sequence, prompt, all};
    EXPECT_THROW(model->forward({&feed, 1}, stopped), Error);
    EXPECT_NE(refusal(*model, sequence, 1).find("this sequence has ended"), std::string::npos);
    EXPECT_EQ(sequence.resume(prompt).reused, 0) << n_ranks << " ranks";
    const Output found = model->forward(sequence, prompt);
    const std::vector<float> kept(found.logits.begin(), found.logits.end());
    const Output expected = model->forward(other, prompt);
    EXPECT_EQ(std::memcmp(kept.data(), expected.logits.data(), kept.size() * sizeof(float)), 0) << n_ranks << " ranks";
  }
}

}  // namespace
}  // namespace tenon
