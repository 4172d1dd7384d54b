// Composites on and off are equal (P12), since those that the engine fuses share the numeric class of their parts.
#include "property.hpp"

namespace tenon::property {
namespace {

class CompositeTest : public PropertyTest {};

TEST_P(CompositeTest, FusingChangesNothing) {
  const auto fused = load(), plain = load([](ModelOptions& o) { o.composites = false; });
  const Tokens prompt = random_tokens(51, 70, *fused), steps = random_tokens(52, 20, *fused);
  Sequence a = fused->sequence(), b = plain->sequence();
  EXPECT_TRUE(same(feed(*fused, a, prompt), feed(*plain, b, prompt)));
  EXPECT_TRUE(same(feed_singly(*fused, a, steps), feed_singly(*plain, b, steps)));
  EXPECT_TRUE(same(a.save(), b.save()));
}

INSTANTIATE_TEST_SUITE_P(Models, CompositeTest, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tenon::property
