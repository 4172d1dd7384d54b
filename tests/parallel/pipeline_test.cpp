// Models whose layers are on different ranks, in stages and by lists: the bits of one device, whatever is fed.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>

#include "models.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

using Change = std::function<void(ModelOptions&)>;

std::vector<float> copy_of(const Output& out) { return {out.logits.begin(), out.logits.end()}; }

class Pipeline : public testing::TestWithParam<const char*> {
 protected:
  // Types of the files have long blocks, which only matter where sums are cut.
  std::unique_ptr<Model> load(uint32_t stages, uint32_t tensor, uint32_t parts, const Change& change = {}) const {
    ModelOptions options = options_for(parts > 1 ? cuttable(GetParam()) : model_path(GetParam()));
    options.pipeline_parallel = stages, options.tensor_parallel = tensor, options.sum_parts = parts;
    if (change) change(options);
    return engine().load(options);
  }
  bool is(const char* architecture) const { return std::string(GetParam()) == architecture; }
};

TEST_P(Pipeline, GivesTheBitsOfOneDevice) {
  const std::vector<float> expected = trace(*load(1, 1, 1));
  for (const uint32_t stages : {2u, 3u}) {
    const auto model = load(stages, 1, 1);
    EXPECT_EQ(model->info().n_ranks, stages);
    EXPECT_EQ(n_different(trace(*model), expected), 0u) << stages << " stages";
    EXPECT_EQ(n_different(trace(*model), expected), 0u) << stages << " stages, again";
    const auto poison = [](ModelOptions& options) { options.poison = true, options.threads = 6; };
    EXPECT_EQ(n_different(trace(*load(stages, 1, 1, poison)), expected), 0u) << stages << " stages, with what must not be read poisoned";
  }
}

TEST_P(Pipeline, OfStagesThatShareTheirLayersGivesTheBitsOfAsManyParts) {
  if (is("gemma4moe")) GTEST_SKIP() << "its experts are too narrow to be cut";
  EXPECT_EQ(n_different(trace(*load(2, 2, 2)), trace(*load(1, 1, 2))), 0u);
}

// Groups that overlap, come back, or have another order.
TEST_P(Pipeline, ByListsGivesTheBitsOfAsManyParts) {
  if (is("gemma4moe")) GTEST_SKIP() << "its experts are too narrow to be cut";
  const std::vector<float> expected = trace(*load(1, 1, 2));
  const std::vector<const char*> lists = is("gemma4e") ? std::vector{"0@0,1", "0-1@1,2", "0@1,0;2-7@1,2"} : std::vector{"0@0,1", "1@1,0", "0@0,1;1-2@2,3", "0@1,2;2@3,1", "all@1,0"};
  for (const char* list : lists) {
    const auto by_list = [&](ModelOptions& options) { options.tensor_layers = list; };
    EXPECT_EQ(n_different(trace(*load(1, 1, 2, by_list)), expected), 0u) << list;
  }
}

// Checkpoints, the text's begin that is taken over, and what is left of a sequence that is cut are the same on every rank.
TEST_P(Pipeline, ReusesPrefixesAsOneDevice) {
  const auto answers = [](Model& model) {
    std::vector<float> out;
    const auto add = [&](const Output& logits) { out.insert(out.end(), logits.logits.begin(), logits.logits.end()); };
    Sequence first = model.sequence();
    std::vector<int32_t> text = tokens(1, 150, model);
    first.resume(text);
    add(model.forward(first, text));
    first.begin();
    const std::vector<int32_t> more = tokens(2, 6, model);
    add(model.forward(first, more));
    first.commit(3);
    text.resize(140);
    const std::vector<int32_t> rest = tokens(3, 50, model);
    text.insert(text.end(), rest.begin(), rest.end());
    Sequence second = model.sequence();
    const int64_t reused = second.resume(text).reused;
    out.push_back(float(reused));
    add(model.forward(second, std::span<const int32_t>(text).subspan(size_t(reused))));
    out.push_back(float(first.truncate(100)));
    if (first.length() < 255) add(model.forward(first, tokens(4, 1, model)));
    const PrefixCacheInfo cache = model.prefix_cache();
    for (const int64_t value : {int64_t(cache.checkpoints), int64_t(cache.pages), int64_t(cache.held_bytes), int64_t(cache.limit_bytes)}) out.push_back(float(value));
    return out;
  };
  for (const int64_t bytes : {int64_t(1) << 26, int64_t(1) << 17}) {  // for all, and for little
    const auto cached = [&](ModelOptions& options) { options.prefix_cache_bytes = bytes; };
    const std::vector<float> expected = answers(*load(1, 1, 1, cached));
    EXPECT_EQ(n_different(answers(*load(2, 1, 1, cached)), expected), 0u) << bytes;
    EXPECT_EQ(n_different(answers(*load(3, 1, 1, cached)), expected), 0u) << bytes;
  }
}

TEST_P(Pipeline, KeepsWhatTapsSee) {
  const auto tapped = [](Model& model) {
    std::map<std::string, std::vector<float>> taps;
    ForwardOptions options;
    options.taps = {"hidden"}, options.tapped = &taps;
    Sequence sequence = model.sequence();
    std::vector<float> out;
    for (const size_t n : {80, 3}) {
      const auto ids = tokens(uint32_t(n), n, model);
      const Feed feed = {&sequence, ids, {}};
      model.forward({&feed, 1}, options);
      for (const auto& [name, values] : taps) out.insert(out.end(), values.begin(), values.end());
    }
    const std::vector<float> plain = copy_of(model.forward(sequence, tokens(5, 2, model)));
    out.insert(out.end(), plain.begin(), plain.end());
    return out;
  };
  const std::vector<float> expected = tapped(*load(1, 1, 1));
  EXPECT_EQ(n_different(tapped(*load(2, 1, 1)), expected), 0u);
  EXPECT_EQ(n_different(tapped(*load(3, 1, 1)), expected), 0u);
  if (is("gemma4moe")) return;
  EXPECT_EQ(n_different(tapped(*load(1, 2, 2)), tapped(*load(1, 1, 2))), 0u);
}

TEST_P(Pipeline, TakesRowsInPlaceOfEmbeddings) {
  if (is("gemma4e")) GTEST_SKIP() << "it takes no such rows";
  const auto with_rows = [](ModelOptions& options) { options.overlay = true; };
  const auto answers = [](Model& model) {
    const std::vector<int32_t> positions = {2, 3, 4, 70};
    std::vector<float> rows(positions.size() * size_t(model.entry("main").overlay_width));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(int(i * 2654435761u % 2001) - 1000) * 1e-3f;
    const std::vector<int32_t> text = tokens(1, 80, model), wanted = {3, 5, 79};
    Sequence sequence = model.sequence();
    const Feed feed = {&sequence, text, wanted, {}, {rows, positions, {}}};
    return copy_of(model.forward({&feed, 1}, {}));
  };
  EXPECT_EQ(n_different(answers(*load(2, 1, 1, with_rows)), answers(*load(1, 1, 1, with_rows))), 0u);
}

// Refusals and interruptions at any chunk find all ranks at the same place.
TEST_P(Pipeline, GoesOnAfterWhatEveryRankRefuses) {
  const auto answers = [](Model& model) {
    std::vector<float> out;
    Sequence sequence = model.sequence();
    EXPECT_THROW(model.forward(sequence, tokens(1, 300, model)), Error);
    const auto ids = tokens(2, 200, model);
    for (int chunks = 0; chunks < 3; ++chunks) {  // of 64, 64 and 72 tokens
      ForwardOptions stopped;
      stopped.cancelled = [n = 0, chunks]() mutable { return n++ == chunks; };
      const Feed feed = {&sequence, ids, {}};
      EXPECT_THROW(model.forward({&feed, 1}, stopped), Error);
      out.push_back(float(sequence.length()));
      const int64_t kept = sequence.truncate(64);
      out.push_back(float(kept));
      if (kept > 64) sequence = model.sequence();
      const std::vector<float> logits = copy_of(model.forward(sequence, tokens(3, 2, model)));
      out.insert(out.end(), logits.begin(), logits.end());
      sequence = model.sequence();
    }
    return out;
  };
  const Change more = [](ModelOptions& options) { options.max_sequences = 4; };
  EXPECT_EQ(n_different(answers(*load(2, 1, 1, more)), answers(*load(1, 1, 1, more))), 0u);
}

TEST_P(Pipeline, IsRefusedWithMoreStagesThanLayers) {
  try {
    load(60, 1, 1);
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(said.find("60"), std::string::npos) << said;
    EXPECT_NE(said.find("layers"), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Pipeline, testing::Values("gemma3", "gemma4", "gemma4e", "gemma4moe", "llama", "qwen3", "qwen35", "qwen35moe", "step35"),
                         [](const auto& info) { return std::string(info.param); });

// Every file and folder of models that the environment names: all formats and types of weights.
TEST(PipelineOfMore, GivesTheBitsOfOneDevice) {
  const char* root = std::getenv("TENON_TEST_MODELS");
  if (!root || !*root) GTEST_SKIP() << "set TENON_TEST_MODELS to a folder of models by architecture";
  size_t n = 0;
  for (const auto& architecture : std::filesystem::directory_iterator(root)) {
    if (!architecture.is_directory()) continue;
    for (const auto& model : std::filesystem::directory_iterator(architecture)) {
      if (model.path().extension() != ".gguf" && !std::filesystem::exists(model.path() / "config.json")) continue;
      ModelOptions options = options_for(model.path());
      const std::vector<float> expected = trace(*engine().load(options));
      for (options.pipeline_parallel = 2; options.pipeline_parallel <= 3; ++options.pipeline_parallel)
        EXPECT_EQ(n_different(trace(*engine().load(options)), expected), 0u) << model.path() << ", " << options.pipeline_parallel << " stages";
      ++n;
    }
  }
  EXPECT_GT(n, 0u) << root;
}

// A rank reads the weights of its layers and keeps their stores, and nothing else.
TEST(PipelineShare, IsOfItsLayersAlone) {
  ModelOptions options = options_for(model_path("qwen35moe"));  // with a head of its own
  const auto one = engine().load(options);
  options.pipeline_parallel = 3;
  const auto three = engine().load(options);
  EXPECT_EQ(three->info().weight_bytes, one->info().weight_bytes);
  EXPECT_EQ(three->info().store_bytes, one->info().store_bytes);
  InspectOptions inspect;
  inspect.json = inspect.plan = true, inspect.model = options;
  const std::string plan = engine().inspect(options.path, inspect);
  EXPECT_NE(plan.find("\"sent_bytes_a_row\": " + std::to_string(one->info().width * 4)), std::string::npos) << plan;
}

TEST(PipelineShare, OfLayersThatShareKeysAndValuesIsOneRanks) {
  ModelOptions options = options_for(cuttable("gemma4e"));
  const auto refusal = [&] {
    try {
      engine().load(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  options.tensor_layers = "7@0,1";
  EXPECT_NE(refusal().find("layers that share them must be on the same ranks"), std::string::npos) << refusal();
  options.tensor_layers.clear(), options.pipeline_parallel = 8;
  EXPECT_NE(refusal().find("share the keys and values of layer"), std::string::npos) << refusal();
}

// A layer that no list names is not cut into parts, whatever its types: here blk.3 has blocks as wide as a part would have to be.
TEST(PipelineLists, CutOnlyLayersThatAreShared) {
  ModelOptions options = options_for(model_path("llama"));
  options.precision = Precision::kExact;
  const auto logits = [&] {
    const auto model = engine().load(options);
    Sequence sequence = model->sequence();
    return copy_of(model->forward(sequence, tokens(1, 20, *model), true));
  };
  const std::vector<float> expected = logits();
  options.tensor_layers = "0@0,1;2@1,0";
  const std::vector<float> found = logits();
  EXPECT_LT(relative_error(found, expected), 1e-4);
  EXPECT_GT(n_different(found, expected), 0u) << "sums in parts round differently";
  options.tensor_layers = "3@0,1";
  EXPECT_THROW(engine().load(options), Error);
}

}  // namespace
}  // namespace tenon
