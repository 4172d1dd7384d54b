// Models in stages: the bits of one device, whatever is fed.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <cstring>

#include "models.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

struct Stages {
  const char* architecture;
  uint32_t most;  // stages that the model can be in
};

class Pipeline : public testing::TestWithParam<Stages> {
 protected:
  std::unique_ptr<Model> load(uint32_t stages, uint32_t tensor, uint32_t parts, bool poison = false) const {
    ModelOptions options = options_for(tensor > 1 || parts > 1 ? cuttable(GetParam().architecture) : model_path(GetParam().architecture));
    options.pipeline_parallel = stages, options.tensor_parallel = tensor, options.sum_parts = parts, options.poison = poison;
    return engine().load(options);
  }
};

bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

TEST_P(Pipeline, GivesTheBitsOfOneDevice) {
  const std::vector<float> expected = trace(*load(1, 1, 1));
  for (uint32_t stages = 2; stages <= std::min(3u, GetParam().most); ++stages) {
    const auto model = load(stages, 1, 1);
    EXPECT_EQ(model->info().n_ranks, stages);
    EXPECT_TRUE(equal(trace(*model), expected)) << stages << " stages";
    EXPECT_TRUE(equal(trace(*model), expected)) << stages << " stages, again";
    EXPECT_TRUE(equal(trace(*load(stages, 1, 1, true)), expected)) << stages << " stages, with what must not be read poisoned";
  }
}

TEST_P(Pipeline, OfStagesThatCutTheirLayersGivesTheBitsOfAsManyParts) {
  if (GetParam().most < 2) GTEST_SKIP();
  EXPECT_TRUE(equal(trace(*load(2, 2, 2)), trace(*load(1, 1, 2))));
}

INSTANTIATE_TEST_SUITE_P(Stages, Pipeline,
                         testing::Values(Stages{"gemma3", 3}, Stages{"gemma4", 3}, Stages{"gemma4e", 3}, Stages{"llama", 3}, Stages{"qwen3", 3},
                                         Stages{"qwen35", 3}, Stages{"qwen35moe", 3}, Stages{"step35", 3}),
                         [](const auto& info) { return std::string(info.param.architecture); });

}  // namespace
}  // namespace tenon
