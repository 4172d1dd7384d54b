// What ranks save of a sequence, put together, is what one device saves: after whatever happened to it.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <cstring>
#include <random>
#include <string>

#include "models.hpp"

namespace tenon {
namespace {

using namespace parallel_test;

struct Spread {
  const char* architecture;
  uint32_t tensor, stages, parts;
  const char* list = "";
};
std::string name_of(const testing::TestParamInfo<Spread>& info) {
  return std::string(info.param.architecture) + "_tp" + std::to_string(info.param.tensor) + "_pp" + std::to_string(info.param.stages) + (*info.param.list ? "_list" : "");
}

class Saved : public testing::TestWithParam<Spread> {
 protected:
  std::unique_ptr<Model> load(uint32_t tensor, uint32_t stages, const char* list = "") const {
    ModelOptions options = options_for(cuttable(GetParam().architecture));
    options.tensor_parallel = tensor, options.pipeline_parallel = stages, options.sum_parts = GetParam().parts;
    options.tensor_layers = list, options.max_sequences = 4, options.prefix_cache_bytes = 1 << 24;
    return engine().load(options);
  }
};

// The same operations at random on two models, one over ranks.
class Pair {
 public:
  Pair(Model& one, Model& ranks, uint32_t seed) : models_{&one, &ranks}, random_(seed) { sequences_.push_back({one.sequence(), ranks.sequence()}); }

  void step() {
    const size_t at = random_() % sequences_.size();
    std::array<Sequence, 2>& both = sequences_[at];
    const auto feed = [&](size_t n) {
      const auto ids = tokens(uint32_t(random_()), n, *models_[0]);
      for (size_t i = 0; i < 2; ++i) models_[i]->forward(both[i], ids);
    };
    const size_t room = size_t(models_[0]->info().context - both[0].length());
    switch (random_() % 7) {
      case 0: if (room >= 70) feed(16 + random_() % 54); break;
      case 1: if (room >= 15) feed(1 + random_() % 15); break;
      case 2:
      case 3: {
        if (room < 15) break;
        for (Sequence& sequence : both) sequence.begin();
        const size_t n = 1 + random_() % 15;
        feed(n);
        const auto keep = int64_t(random_() % (n + 1));
        for (Sequence& sequence : both) keep ? sequence.commit(keep) : sequence.rollback();
        break;
      }
      case 4:
        if (sequences_.size() < 3) sequences_.push_back({both[0].fork(), both[1].fork()});
        break;
      case 5: {
        const int64_t n = both[0].length() - int64_t(random_() % 5);
        EXPECT_EQ(both[0].truncate(std::max<int64_t>(n, 0)), both[1].truncate(std::max<int64_t>(n, 0)));
        break;
      }
      default: {  // and back again: from what one device saved
        const auto bytes = both[0].save();
        both[1].restore(bytes), both[0].restore(bytes);
      }
    }
  }

  void compare(const std::string& when) {
    for (auto& both : sequences_) {
      ASSERT_EQ(both[0].length(), both[1].length()) << when;
      const auto one = both[0].save(), ranks = both[1].save();
      ASSERT_EQ(one.size(), ranks.size()) << when;
      ASSERT_EQ(std::memcmp(one.data(), ranks.data(), one.size()), 0) << when;
    }
  }

 private:
  std::array<Model*, 2> models_;
  std::mt19937 random_;
  std::vector<std::array<Sequence, 2>> sequences_;
};

TEST_P(Saved, OfRanksIsWhatOneDeviceSaves) {
  const auto one = load(1, 1), ranks = load(GetParam().tensor, GetParam().stages, GetParam().list);
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    Pair pair(*one, *ranks, seed);
    for (int i = 0; i < 40; ++i) {
      pair.step();
      pair.compare("seed " + std::to_string(seed) + ", step " + std::to_string(i));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Saved,
                         testing::Values(Spread{"gemma3", 2, 1, 2}, Spread{"gemma3", 1, 3, 1}, Spread{"gemma4", 2, 1, 2}, Spread{"gemma4", 2, 2, 2},
                                         Spread{"gemma4e", 2, 1, 2}, Spread{"gemma4e", 1, 2, 1}, Spread{"llama", 4, 1, 4}, Spread{"qwen3", 2, 2, 4},
                                         Spread{"qwen35", 2, 1, 2}, Spread{"qwen35", 1, 3, 1}, Spread{"qwen35", 2, 2, 2}, Spread{"qwen35moe", 2, 2, 2},
                                         Spread{"step35", 2, 2, 2}, Spread{"step35", 1, 3, 1}, Spread{"qwen35", 1, 1, 2, "0-2@1,0;4@2,1"}, Spread{"gemma4", 1, 1, 2, "1@1,2;3-4@2,3"}),
                         name_of);

}  // namespace
}  // namespace tenon
