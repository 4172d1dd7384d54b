// Barriers are counted, not timed: a decode step of these models may hold eight a layer.
#include "engine/loaded.hpp"
#include "plugin/plugin_host.hpp"
#include "property.hpp"

namespace tenon::property {
namespace {

constexpr uint32_t kMaxBarriersALayer = 8;

TEST(BarriersTest, ADecodeStepHoldsAtMostEightALayer) {
  if (!has_plugin("cpu")) GTEST_SKIP() << "the plugin of backend cpu is not built";
  for (const char* architecture : {"gemma3", "qwen35"}) {
    for (const Precision precision : {Precision::kExact, Precision::kDefault}) {
      plugin::PluginHost plugins({{TENON_TEST_PLUGINS}, false});
      ModelOptions options;
      options.path = data_model(architecture), options.backend = "cpu", options.threads = 2,
      options.precision = precision;
      engine::Loaded loaded(plugins, options);
      loaded.prepare_unpacked();
      const program::Program& program = loaded.program(TENON_PHASE_DECODE);
      const auto counts = program.layer_counts();
      ASSERT_EQ(counts.size(), loaded.graph().n_layers);
      uint32_t total = 0;
      for (size_t layer = 0; layer < counts.size(); ++layer) {
        EXPECT_GT(counts[layer].launches, 0u);
        EXPECT_LE(counts[layer].barriers, kMaxBarriersALayer) << architecture << " layer " << layer << "\n"
                                                              << program.describe();
        total += counts[layer].barriers;
      }
      std::printf("%s %s: %u barriers in %zu layers, %u launches\n", architecture,
                  precision == Precision::kExact ? "exact" : "default", total, counts.size(), program.n_launches());
      // The rest of a step, embedding and head, adds a few.
      EXPECT_LE(program.n_barriers(), total + 6);
    }
  }
}

}  // namespace
}  // namespace tenon::property
