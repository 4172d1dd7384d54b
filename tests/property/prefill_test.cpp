// The prefill phase: equal for every chunking (P5) and for a prefix that is reused (P6); bounded against decode (P9).
#include <cmath>
#include <cstdio>

#include "property.hpp"

namespace tenon::property {
namespace {

class PrefillTest : public PropertyTest {};

size_t prompt_length(const Case& c) { return c.is_slow() ? 150 : 600; }

TEST_P(PrefillTest, AnyChunkingGivesTheSame) {
  const size_t n = prompt_length(GetParam());
  const auto model = load([](ModelOptions& o) { o.prefill_chunk = 640; });
  const Tokens tokens = random_tokens(17, n, *model);
  Sequence whole = model->sequence();
  const std::vector<float> expected = feed(*model, whole, tokens);
  const std::vector<uint8_t> saved = whole.save();
  ASSERT_TRUE(all_finite(expected));
  for (const uint32_t chunk : {64u, 128u, 512u}) {
    if (chunk >= n || (GetParam().is_slow() && chunk == 64)) continue;  // the next test has chunks of 64
    ForwardOptions options;
    options.chunk = chunk;
    Sequence sequence = model->sequence();
    EXPECT_TRUE(same(feed(*model, sequence, tokens, options), expected)) << "chunks of " << chunk;
    EXPECT_TRUE(same(sequence.save(), saved)) << "chunks of " << chunk;
  }
}

// How much memory the model plans a step for is no part of the arithmetic either.
TEST_P(PrefillTest, SmallStepsPlannedAtLoadGiveTheSame) {
  const size_t n = GetParam().is_slow() ? 90 : 600;
  const auto large = load([](ModelOptions& o) { o.prefill_chunk = 640; });
  const auto small = load([](ModelOptions& o) { o.prefill_chunk = 64; });
  const Tokens tokens = random_tokens(18, n, *large);
  Sequence a = large->sequence(), b = small->sequence();
  const std::vector<float> expected = feed(*large, a, tokens);
  EXPECT_TRUE(same(feed(*small, b, tokens), expected));
  EXPECT_TRUE(same(b.save(), a.save()));
}

TEST_P(PrefillTest, AReusedPrefixEqualsAColdRun) {
  const auto model = load();
  const Tokens tokens = random_tokens(19, 64 + 50, *model);
  Sequence cold = model->sequence(), prefix = model->sequence();
  const std::vector<float> expected = feed(*model, cold, tokens);
  feed(*model, prefix, part(tokens, 0, 64));
  Sequence forked = prefix.fork(), restored = model->sequence();
  restored.restore(prefix.save());
  for (Sequence* warm : {&forked, &restored, &prefix}) {
    const std::vector<float> found = feed(*model, *warm, part(tokens, 64, 50));
    EXPECT_TRUE(same(found, std::span(expected).subspan(64 * size_t(model->info().vocab))));
    EXPECT_TRUE(same(warm->save(), cold.save()));
  }
}

// Chunks that are cut off the grid are another sum in places; what is asked of them is that they fit.
TEST_P(PrefillTest, PromptsMayBeginAnywhere) {
  const auto model = load([](ModelOptions& o) { o.prefill_chunk = 64, o.context = 256; });
  const Tokens tokens = random_tokens(20, 256, *model);
  for (const auto& [begin, n] : {std::pair<size_t, size_t>{49, 94}, {1, 78}, {15, 16}, {63, 160}}) {
    if (GetParam().is_slow() && begin != 49) continue;
    Sequence sequence = model->sequence();
    feed(*model, sequence, part(tokens, 0, begin));
    EXPECT_TRUE(all_finite(feed(*model, sequence, part(tokens, begin, n))));
    EXPECT_EQ(sequence.length(), int64_t(begin + n));
  }
}

// Relative rms of all logits of 40 rows, prefill against decode. The bounds are about four times what the small models
// of tests/data show; beyond them something else than the order of a sum is at work.
//   reference  the same kernels serve both phases
//   exact      f32 sums in another order
//   default    8-bit activations: a value that f32 rounds the other way moves to the next code; and f16 K/V
struct Bound {
  const char* backend;
  Precision precision;
  double rms;
};
constexpr Bound kBounds[] = {
    {"reference", Precision::kExact, 1e-6},
    {"reference", Precision::kDefault, 1e-6},
    {"cpu", Precision::kExact, 5e-6},
    {"cpu", Precision::kDefault, 4e-2},
};

TEST_P(PrefillTest, StaysCloseToDecode) {
  const auto model = load();
  const Tokens tokens = random_tokens(23, 40, *model);
  Sequence a = model->sequence(), b = model->sequence();
  const std::vector<float> prefill = feed(*model, a, tokens), decode = feed_singly(*model, b, tokens);
  double gap = 0, size = 0;
  for (size_t i = 0; i < decode.size(); ++i)
    gap += std::pow(double(prefill[i]) - decode[i], 2), size += std::pow(double(decode[i]), 2);
  const double rms = std::sqrt(gap / size);
  for (const Bound& bound : kBounds) {
    if (bound.backend != GetParam().backend || bound.precision != GetParam().precision) continue;
    EXPECT_LE(rms, bound.rms);
  }
  RecordProperty("relative_rms", std::to_string(rms));
  std::printf("prefill against decode: relative rms %.3g\n", rms);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefillTest, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tenon::property
