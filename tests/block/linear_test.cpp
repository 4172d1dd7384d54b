// linear of every dtype and instruction set against the reference kernel on the same encoded operands.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "blocks.hpp"
#include "driver.hpp"

namespace tenon::block_test {
namespace {

using testing::OpCase;
using testing::RunResult;
using testing::Step;

// The kernels fold f32 over blocks; K is at most a few thousand here, so a few ulps of the sum.
constexpr double kBound = 2e-6;

OpCase linear_case(const std::vector<Weight>& weights, int64_t rows, const std::vector<float>& x, uint32_t phase) {
  tenon_linear_attr attr = {sizeof(tenon_linear_attr), 0};
  OpCase c(TENON_OP_LINEAR, attr, Step::plain(static_cast<uint32_t>(rows)));
  c.input(rows, weights[0].cols, {x.begin(), x.begin() + rows * weights[0].cols}).phase(phase);
  for (const Weight& w : weights) c.weight(w).output(w.rows);
  return c;
}

bool in_tiles(const std::string& kernel) { return kernel == "block.linear.amx"; }
// Tiles serve prefill alone, for any number of rows.
uint32_t phase_of(const std::string& kernel, int64_t rows) {
  return rows < 16 && !in_tiles(kernel) ? TENON_PHASE_DECODE : TENON_PHASE_PREFILL;
}

class LinearTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const tenon_kernel& kernel() const { return kit().kernel(std::get<0>(GetParam())); }
  std::string dtype() const { return std::get<1>(GetParam()); }
  bool tiles() const { return in_tiles(std::get<0>(GetParam())); }
  uint32_t phase(int64_t rows) const { return phase_of(std::get<0>(GetParam()), rows); }
};

TEST_P(LinearTest, MatchesTheReferenceForEveryRowCountAndRaggedOutputs) {
  kit();
  Random random(1);
  const Weight w = random_weight(dtype(), 37, 512, random);
  const std::vector<float> x = random.normals(64 * 512);
  const OpCase all = linear_case({w}, 64, x, TENON_PHASE_PREFILL);
  const RunResult got = testing::run_op(kernel(), all);
  ASSERT_TRUE(got.accepted) << got.why_not;
  ASSERT_EQ(got.in_encoding[0], static_cast<uint32_t>(tiles() ? TENON_ENC_BF16 : TENON_ENC_Q8_32));
  EXPECT_TRUE(got.offer.flags & TENON_OFFER_ROW_EXACT);
  const RunResult want = testing::run_reference(all, got);
  const auto difference = testing::compare(got.out[0], want.out[0]);
  EXPECT_TRUE(difference.comparable) << difference.text();
  EXPECT_LT(difference.relative_rms, kBound) << difference.text();
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64}) {
    const RunResult part = testing::run_op(kernel(), linear_case({w}, rows, x, phase(rows)));
    EXPECT_TRUE(testing::equal_bits(part.out[0], std::span(got.out[0]).first(static_cast<size_t>(rows) * 37)))
        << rows << " rows";
  }
}

TEST_P(LinearTest, GivesTheSameBitsForEveryNumberOfWorkers) {
  kit();
  Random random(2);
  const Weight w = random_weight(dtype(), 16 * 5 + 5, 256, random);
  const std::vector<float> x = random.normals(17 * 256);
  for (const int64_t rows : {int64_t{1}, int64_t{17}}) {
    const OpCase c = linear_case({w}, rows, x, phase(rows));
    const RunResult one = testing::run_op(kernel(), c);
    for (const uint32_t workers : {2u, 3u, 7u})
      EXPECT_TRUE(testing::equal_bits(testing::run_op(kernel(), c, {.workers = workers}).out[0], one.out[0]))
          << workers << " workers, " << rows << " rows";
  }
}

TEST_P(LinearTest, TakesHostileScales) {
  kit();
  Random random(3);
  const Weight w = random_weight(dtype(), 33, 1024, random, Scales::kHostile);
  const OpCase c = linear_case({w}, 5, random.normals(5 * 1024, 3.0f), phase(5));
  const RunResult got = testing::run_op(kernel(), c);
  const auto difference = testing::compare(got.out[0], testing::run_reference(c, got).out[0]);
  EXPECT_TRUE(difference.comparable) << difference.text();
  EXPECT_LT(difference.relative_rms, kBound) << difference.text();
}

// Codes at their ends against activations at their ends: the largest sums that integers have to hold.
TEST_P(LinearTest, HoldsTheLargestSums) {
  kit();
  for (const uint8_t fill : {0x00, 0xff, 0x80, 0x7f}) {
    const tenon_dtype& record = kit().dtype(dtype());
    std::vector<uint8_t> bytes(size_t{16} * 2 * record.block_bytes, fill);
    Weight w = Weight::raw(dtype(), 16, 2 * record.block_cols, bytes.data(), bytes.size());
    Random random(4);
    const Weight finite = random_weight(dtype(), 16, w.cols, random);
    copy_scales(finite, w);  // finite scales, constant codes
    std::vector<float> x(static_cast<size_t>(3 * w.cols), 1.0f);
    for (int64_t i = 0; i < w.cols; ++i) x[static_cast<size_t>(w.cols + i)] = -1.0f;
    for (int64_t i = 0; i < w.cols; ++i) x[static_cast<size_t>(2 * w.cols + i)] = i % 2 ? 1.0f : -1.0f;
    const OpCase c = linear_case({w}, 3, x, phase(3));
    const RunResult got = testing::run_op(kernel(), c);
    const auto difference = testing::compare(got.out[0], testing::run_reference(c, got).out[0]);
    EXPECT_TRUE(difference.comparable) << difference.text();
    EXPECT_LT(difference.relative_rms, kBound) << static_cast<int>(fill) << " " << difference.text();
  }
}

TEST_P(LinearTest, KeepsAFaultInItsRowAndItsColumn) {
  kit();
  Random random(5);
  Weight w = random_weight(dtype(), 20, 512, random);
  std::vector<float> x = random.normals(18 * 512);
  const RunResult clean = testing::run_op(kernel(), linear_case({w}, 18, x, TENON_PHASE_PREFILL));
  x[7 * 512 + 100] = std::numeric_limits<float>::quiet_NaN();
  x[13 * 512 + 300] = std::numeric_limits<float>::infinity();
  const bool has_nan = dtype() != "mxfp4";  // whose scales are all numbers
  if (has_nan) set_scale(w, 17, 1, 0x7e00);
  const RunResult got = testing::run_op(kernel(), linear_case({w}, 18, x, TENON_PHASE_PREFILL));
  for (size_t r = 0; r < 18; ++r) {
    for (size_t n = 0; n < 20; ++n) {
      const float value = got.out[0][r * 20 + n];
      if (r == 7 || r == 13 || (has_nan && n == 17)) {
        EXPECT_TRUE(std::isnan(value) || (tiles() && r == 13 && std::isinf(value))) << r << " " << n;
      } else {
        EXPECT_EQ(value, clean.out[0][r * 20 + n]) << r << " " << n;
      }
    }
  }
}

TEST_P(LinearTest, TakesTheShortestAndALongRow) {
  kit();
  Random random(6);
  const int64_t block = kit().dtype(dtype()).block_cols;
  for (const int64_t cols : {block, 3 * block, 24 * block}) {
    const Weight w = random_weight(dtype(), 3, cols, random);
    const OpCase c = linear_case({w}, 2, random.normals(static_cast<size_t>(2 * cols)), phase(2));
    const RunResult got = testing::run_op(kernel(), c);
    const auto difference = testing::compare(got.out[0], testing::run_reference(c, got).out[0]);
    EXPECT_LT(difference.relative_rms, kBound) << cols << " columns: " << difference.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Block, LinearTest,
                         ::testing::Combine(::testing::ValuesIn(linear_kernels()), ::testing::ValuesIn(dtypes())),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param).substr(13) + "_" + std::get<1>(info.param);
                           return name;
                         });

class MixedLinearTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MixedLinearTest, ServesFourWeightsOfDifferentTypes) {
  const tenon_kernel& kernel = kit().kernel(GetParam());
  Random random(7);
  const std::vector<Weight> weights = {random_weight("q5_0", 100, 512, random), random_weight("q6_k", 21, 512, random),
                                       random_weight("q4_k", 64, 512, random), random_weight("q2_k", 5, 512, random)};
  const std::vector<float> x = random.normals(40 * 512);
  for (const int64_t rows : {int64_t{1}, int64_t{40}}) {
    for (const uint32_t workers : {1u, 3u}) {
      const OpCase c = linear_case(weights, rows, x, TENON_PHASE_PREFILL);
      const RunResult got = testing::run_op(kernel, c, {.workers = workers});
      const RunResult want = testing::run_reference(c, got);
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_LT(testing::compare(got.out[i], want.out[i]).relative_rms, kBound) << weights[i].dtype;
        const RunResult alone = testing::run_op(kernel, linear_case({weights[i]}, rows, x, phase_of(GetParam(), 1)));
        EXPECT_TRUE(testing::equal_bits(got.out[i], alone.out[0])) << weights[i].dtype;
      }
    }
  }
}

// More rows than are worked on at once, so that the chunks' border is crossed.
TEST_P(MixedLinearTest, CutsManyRowsWithoutATrace) {
  const tenon_kernel& kernel = kit().kernel(GetParam());
  Random random(8);
  const std::vector<Weight> weights = {random_weight("q8_0", 16, 4096, random),
                                       random_weight("q4_k", 16, 4096, random)};
  const bool tiles = in_tiles(GetParam());
  const int64_t rows = tiles ? 530 : 150;
  const std::vector<float> x = random.normals(static_cast<size_t>(rows * 4096));
  const RunResult got = testing::run_op(kernel, linear_case(weights, rows, x, TENON_PHASE_PREFILL));
  const std::vector<int64_t> some = {0, 47, 48, 49, 63, 64, 95, 96, 143, 144, 149}, of_tiles = {0, 511, 512, 529};
  for (const int64_t r : tiles ? of_tiles : some) {
    const std::vector<float> one(x.begin() + r * 4096, x.begin() + (r + 1) * 4096);
    const RunResult alone = testing::run_op(kernel, linear_case(weights, 1, one, phase_of(GetParam(), 1)));
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(testing::equal_bits(alone.out[i], std::span(got.out[i]).subspan(static_cast<size_t>(r) * 16, 16)))
          << r;
  }
}

TEST_P(MixedLinearTest, WritesNothingBeyondItsOutputs) {
  const tenon_kernel& kernel = kit().kernel(GetParam());
  Random random(9);
  for (const int64_t rows : {1, 5, 20}) {
    LinearRun run(kernel, {random_weight("q5_0", 21, 64, random)}, rows, phase_of(GetParam(), rows), 2);
    run.x().encode(random.normals(static_cast<size_t>(rows * 64)));
    run.run();
    for (int64_t r = 0; r < rows; ++r) {
      for (int n = 0; n < 32; ++n) {
        if (n < 21) {
          EXPECT_TRUE(std::isfinite(run.out(0).row(r)[n])) << r << " " << n;
        } else {
          EXPECT_TRUE(std::isnan(run.out(0).row(r)[n])) << r << " " << n;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Block, MixedLinearTest, ::testing::ValuesIn(linear_kernels()),
                         [](const auto& info) { return info.param.substr(13); });

// Not promised to users, but true by construction of the fold: a difference is a fault in one of the two.
TEST(VectorWidths, GiveTheSameBits) {
  kit();
  auto names = linear_kernels();
  std::erase_if(names, in_tiles);  // which have a definition of their own
  if (names.size() < 3) GTEST_SKIP() << "this machine has one vector width";
  Random random(10);
  for (const std::string& dtype : dtypes()) {
    const OpCase c =
        linear_case({random_weight(dtype, 40, 768, random)}, 9, random.normals(9 * 768), TENON_PHASE_DECODE);
    const RunResult narrow = testing::run_op(kit().kernel("block.linear.avx2"), c);
    for (size_t i = 2; i < names.size(); ++i) {
      const RunResult wide = testing::run_op(kit().kernel(names[i]), c);
      ASSERT_TRUE(wide.accepted) << names[i] << ": " << wide.why_not;
      EXPECT_TRUE(testing::equal_bits(wide.out[0], narrow.out[0])) << dtype << " " << names[i];
    }
  }
}

}  // namespace
}  // namespace tenon::block_test
