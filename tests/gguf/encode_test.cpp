// Encoders that look for the best scales: how near they come, and what they do with odd blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "fake_host.hpp"

namespace tenon::test {
namespace {

constexpr int64_t kRows = 64, kCols = 256;

struct Encoded {
  std::string bytes;
  std::vector<float> values;
  tenon_status check = TENON_OK;
};

Encoded encode(const std::string& name, const std::vector<float>& x, int64_t cols = kCols) {
  const tenon_dtype* dtype = FakeHost::get().dtype(name);
  const int64_t rows = int64_t(x.size()) / cols;
  Encoded out;
  out.bytes.assign(size_t(rows * (cols / dtype->block_cols) * dtype->block_bytes), '\x55');
  out.values.resize(x.size());
  tenon_weight weight = {};
  weight.struct_size = sizeof weight, weight.rows = rows, weight.cols = cols;
  weight.row_bytes = cols / dtype->block_cols * dtype->block_bytes;
  weight.plane[0] = tenon_addr(out.bytes.data());
  EXPECT_EQ(dtype->encode(x.data(), rows, cols, &weight), TENON_OK) << name;
  EXPECT_EQ(dtype->decode(&weight, 0, rows, out.values.data()), TENON_OK) << name;
  out.check = dtype->check(&weight, 0, rows);
  return out;
}

// Root of the share of Σx² that is lost.
double loss(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, square = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(double(x[i]) - y[i], 2), square += std::pow(double(x[i]), 2);
  return std::sqrt(error / square);
}

// Weights as they are: normal, with rows of different size.
std::vector<float> normal_values() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t(kRows * kCols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = normal(random) * 0.02f * float(1 + i / kCols % 5);
  return x;
}

// Plain rounding to the levels of a type: the scale (and minimum) of each group spans its values, exactly.
std::vector<float> rounded(const std::vector<float>& x, int group, int low, int high, bool has_min) {
  std::vector<float> y(x.size());
  for (size_t begin = 0; begin < x.size(); begin += size_t(group)) {
    float least = 0, most = 0;
    for (size_t i = begin; i < begin + size_t(group); ++i) least = std::min(least, x[i]), most = std::max(most, x[i]);
    const float scale = has_min ? (most - least) / float(high) : std::max(-least, most) / float(-low);
    const float shift = has_min ? least : 0;
    for (size_t i = begin; i < begin + size_t(group); ++i)
      y[i] = scale * std::clamp(std::round((x[i] - shift) / scale), float(low), float(high)) + shift;
  }
  return y;
}

struct Quality {
  const char* dtype;
  double loss;  // measured on these values, with a margin of 3 %
  int group, low, high;
  bool has_min;
};
class Search : public ::testing::TestWithParam<Quality> {};

// Plain rounding may keep exact scales, which a file cannot; the search beats it nevertheless.
TEST_P(Search, LosesLessThanPlainRounding) {
  const Quality& q = GetParam();
  const std::vector<float> x = normal_values();
  const Encoded encoded = encode(q.dtype, x);
  EXPECT_EQ(encoded.check, TENON_OK);
  const double found = loss(x, encoded.values);
  EXPECT_LT(found, q.loss);
  RecordProperty("loss", std::to_string(found));
  EXPECT_LT(found, loss(x, rounded(x, q.group, q.low, q.high, q.has_min)));
}

// What was decoded comes back as it was, up to scales that are whole numbers of another step.
TEST_P(Search, KeepsValuesThatTheTypeHolds) {
  const Encoded first = encode(GetParam().dtype, normal_values());
  const Encoded second = encode(GetParam().dtype, first.values);
  EXPECT_LT(loss(first.values, second.values), 0.2 * loss(normal_values(), first.values));
}

INSTANTIATE_TEST_SUITE_P(Types, Search,
                         ::testing::Values(Quality{"q2_k", 0.2688, 16, 0, 3, true}, Quality{"q3_k", 0.1470, 16, -4, 3, false},
                                           Quality{"q4_k", 0.0717, 32, 0, 15, true}, Quality{"q5_k", 0.0354, 32, 0, 31, true},
                                           Quality{"q6_k", 0.0168, 16, -32, 31, false},
                                           Quality{"iq4_nl", 0.0745, 32, -8, 7, false},
                                           Quality{"iq4_xs", 0.0751, 32, -8, 7, false}),
                         [](const auto& info) { return std::string(info.param.dtype); });

constexpr const char* kEncoders[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0",   "mxfp4",  "q2_k",
                                     "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"};

// Levels of a type on the smaller side of zero, or over the whole range.
double coarsest_step(const std::string& dtype) {
  if (dtype == "q2_k") return 1.0 / 3;
  if (dtype == "q3_k" || dtype == "mxfp4") return 1.0 / 3;
  return 1.0 / 7;
}

TEST(Encode, OddBlocksStayFiniteAndNear) {
  const std::vector<std::pair<const char*, std::function<float(int)>>> kinds = {
      {"zeros", [](int) { return 0.0f; }},
      {"one value", [](int) { return 0.37f; }},
      {"one negative value", [](int) { return -0.37f; }},
      {"an outlier", [](int i) { return i == 77 ? 100.0f : 0.01f * float(i % 7 - 3); }},
      {"one group of many", [](int i) { return i / 32 == 3 ? float(i % 5) - 2 : 0.0f; }},
      {"alternating", [](int i) { return i % 2 ? 1.0f : -1.0f; }},
      {"all positive", [](int i) { return 1.0f + 0.001f * float(i); }},
      {"all negative", [](int i) { return -1.0f - 0.001f * float(i); }},
      {"small", [](int i) { return 1e-3f * float(i % 11 - 5); }},
  };
  for (const char* dtype : kEncoders)
    for (const auto& [kind, value] : kinds) {
      SCOPED_TRACE(std::string(dtype) + ", " + kind);
      std::vector<float> x(kCols);
      float largest = 0;
      for (int i = 0; i < kCols; ++i) x[size_t(i)] = value(i), largest = std::max(largest, std::fabs(x[size_t(i)]));
      const Encoded encoded = encode(dtype, x);
      EXPECT_EQ(encoded.check, TENON_OK);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::fabs(encoded.values[i] - x[i]), largest * 1.02 * coarsest_step(dtype)) << i;
    }
}

TEST(Encode, TinyValuesBecomeTinyOrZero) {
  for (const char* dtype : kEncoders)
    for (const float size : {1e-45f, 1e-38f, 1e-20f, 1e-9f}) {
      std::vector<float> x(kCols);
      for (size_t i = 0; i < x.size(); ++i) x[i] = size * float(i % 9) - 4 * size;
      const Encoded encoded = encode(dtype, x);
      EXPECT_EQ(encoded.check, TENON_OK) << dtype << " " << size;
      // Half of the smallest f16 is what a step may be off.
      for (const float v : encoded.values) ASSERT_LE(std::fabs(v), 5 * size + 127 * 32 * 3e-8f) << dtype << " " << size;
    }
}

TEST(Encode, ValuesThatTheTypeCannotHoldAreFoundByCheck) {
  for (const char* dtype : kEncoders) {
    if (std::string(dtype) == "mxfp4") continue;  // its scales reach as far as f32
    for (const float size : {1e9f, 1e30f, 3e38f}) {
      std::vector<float> x(kCols);
      for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 ? size : -size;
      EXPECT_EQ(encode(dtype, x).check, TENON_CORRUPT) << dtype << " " << size;
    }
  }
}

}  // namespace
}  // namespace tenon::test
