// Composites on and off are equal (P12) where a fused kernel shares the numeric class of its parts.
#include "property.hpp"

namespace tenon::property {
namespace {

void expect_equal(Model& fused, Model& plain) {
  const Tokens prompt = random_tokens(51, 70, fused), steps = random_tokens(52, 20, fused);
  Sequence a = fused.sequence(), b = plain.sequence();
  EXPECT_TRUE(same(feed(fused, a, prompt), feed(plain, b, prompt)));
  EXPECT_TRUE(same(feed_singly(fused, a, steps), feed_singly(plain, b, steps)));
  a.begin(), b.begin();
  EXPECT_TRUE(same(feed(fused, a, part(steps, 0, 5)), feed(plain, b, part(steps, 0, 5))));
  a.commit(3), b.commit(3);
  EXPECT_TRUE(same(a.save(), b.save()));
}

class CompositeTest : public PropertyTest {};

// Whatever the backend's own plugins fuse.
TEST_P(CompositeTest, FusingChangesNothing) {
  const auto fused = load(), plain = load([](ModelOptions&o) { o.composites = false; });
  expect_equal(*fused, *plain);
}

INSTANTIATE_TEST_SUITE_P(Models, CompositeTest, ::testing::ValuesIn(most_cases()), case_name);

// A stranger's kernel for two ops, with two outputs, one of which is also read later and tapped.
TEST(StrangersCompositeTest, ServesItsGroupAndChangesNothing) {
  if (!has_plugin("reference")) GTEST_SKIP() << "the plugin of backend reference is not built";
  Engine engine({{TENON_TEST_PLUGINS, TENON_TEST_FIXTURES}, false});
  for (const char* architecture : {"gemma3", "qwen35"}) {
    ModelOptions options;
    options.path = data_model(architecture), options.backend = "reference", options.context = 128;
    options.precision = Precision::kExact;
    const auto fused = engine.load(options);
    options.composites = false;
    const auto plain = engine.load(options);
    // Two places a layer, but for the last sum, whose rows are selected before they are normed.
    EXPECT_EQ(plain->info().decode_launches - fused->info().decode_launches, uint32_t(2 * fused->info().n_layers - 1))
        << architecture;
    expect_equal(*fused, *plain);
  }
}

}  // namespace
}  // namespace tenon::property
