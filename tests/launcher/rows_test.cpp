#include "rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon::launcher {
namespace {

TEST(NegativeLogLikelihood, IsThatOfTheSoftmax) {
  const std::vector<float> even = {3, 3, 3, 3};
  EXPECT_DOUBLE_EQ(negative_log_likelihood(even, 2), std::log(4.0));
  const std::vector<float> large = {10000, 9999};
  EXPECT_NEAR(negative_log_likelihood(large, 1), 1 + std::log1p(std::exp(-1.0)), 1e-12);
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(std::isfinite(negative_log_likelihood(broken, 0)));
}

TEST(Argmax, TakesTheFirstOfEquals) {
  const std::vector<float> values = {1, 5, 2, 5};
  EXPECT_EQ(argmax(values), 1);
}

}  // namespace
}  // namespace tenon::launcher
