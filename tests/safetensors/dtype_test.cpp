// FP8 and NVFP4 against reference values, bit for bit, and their encoders against the decoders.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "dtype/codes.hpp"
#include "fake_host.hpp"
#include "json.hpp"

namespace tenon::safetensors {
namespace {

using test::FakeHost;

// Arrays of tests/data/unit/dequant.safetensors.
std::string vectors(const std::string& name) {
  std::ifstream in(std::string(TENON_TEST_DATA) + "/unit/dequant.safetensors", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const JsonDocument header("dequant", std::string_view(bytes).substr(8, length));
  const JsonValue& range = *header.root().find(name)->find("data_offsets");
  const auto begin = size_t(range.items[0].integer), end = size_t(range.items[1].integer);
  return bytes.substr(8 + length + begin, end - begin);
}

struct Planes {
  std::string bytes[4];
  tenon_weight weight = {};
  Planes(int64_t rows, int64_t cols, uint32_t n_expert = 0) {
    weight.struct_size = sizeof weight, weight.rows = rows, weight.cols = cols, weight.n_expert = n_expert;
  }
  Planes& set(int plane, std::string value) {
    bytes[plane] = std::move(value);
    weight.plane[plane] = reinterpret_cast<tenon_addr>(bytes[plane].data());
    return *this;
  }
  std::vector<float> decode(const char* dtype, int64_t row0 = 0, int64_t n = -1) const {
    const int64_t rows = n >= 0 ? n : weight.rows * std::max<int64_t>(1, weight.n_expert);
    std::vector<float> out(size_t(rows * weight.cols));
    EXPECT_EQ(FakeHost::get().dtype(dtype)->decode(&weight, row0, rows, out.data()), TENON_OK)
        << FakeHost::get().message;
    return out;
  }
};

template <typename T>
std::string as_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Fp8, EveryCodeHasTheReferenceValue) {
  Planes all(1, 256);
  const std::string expected = vectors("F8_E4M3.f32");
  all.set(0, vectors("F8_E4M3.raw"));
  const std::vector<float> got = all.decode("fp8_e4m3");
  for (size_t i = 0; i < 256; ++i) {
    float value = 0;
    std::memcpy(&value, expected.data() + 4 * i, 4);
    EXPECT_TRUE(std::isnan(value) ? std::isnan(got[i]) : std::memcmp(&value, &got[i], 4) == 0) << i;
  }
}

TEST(Fp8, EveryValueIsEncodedToTheNearestCode) {
  for (int code = 0; code < 256; ++code)
    if (!std::isnan(kE4M3[size_t(code)])) {
      EXPECT_EQ(e4m3_code(kE4M3[size_t(code)]), code);
    }
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponent(-14, 10);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::exp2(exponent(random)) * (random() & 1 ? 1.0f : -1.0f);
    const float got = kE4M3[e4m3_code(value)];
    float best = INFINITY;
    for (int code = 0; code < 256; ++code)
      if (!std::isnan(kE4M3[size_t(code)])) best = std::min(best, std::fabs(kE4M3[size_t(code)] - value));
    EXPECT_EQ(std::fabs(got - value), best) << value;
  }
  EXPECT_EQ(kE4M3[e4m3_code(1.0625f)], 1.0f);  // halfway: the even one
  EXPECT_EQ(kE4M3[e4m3_code(1.1875f)], 1.25f);
  EXPECT_EQ(kE4M3[e4m3_code(1e9f)], 448.0f);
}

TEST(Fp8, AScaleServesItsTileRowOrTensor) {
  constexpr int64_t kRows = 130, kCols = 200;
  const std::string codes(kRows * kCols, '\x38');  // 1.0
  Planes block(kRows, kCols), row(kRows, kCols), tensor(kRows, kCols), bf16(kRows, kCols);
  block.set(0, codes).set(1, as_bytes<float>({1, 2, 3, 4}));
  bf16.set(0, codes).set(1, as_bytes<uint16_t>({0x3f80, 0x4000, 0x4040, 0x4080}));
  std::vector<float> scales(kRows);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = float(i + 1);
  row.set(0, codes).set(1, as_bytes(scales));
  tensor.set(0, codes).set(3, as_bytes<float>({5}));
  const auto of_block = block.decode("fp8_b128"), of_bf16 = bf16.decode("fp8_b128_bf16"),
             of_row = row.decode("fp8_row"), of_tensor = tensor.decode("fp8_tensor");
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c) {
      const size_t at = size_t(r * kCols + c);
      EXPECT_EQ(of_block[at], float(1 + 2 * (r / 128) + c / 128));
      EXPECT_EQ(of_bf16[at], of_block[at]);
      EXPECT_EQ(of_row[at], float(r + 1));
      EXPECT_EQ(of_tensor[at], 5.0f);
    }
  EXPECT_EQ(block.decode("fp8_b128", 129, 1), std::vector<float>(of_block.end() - kCols, of_block.end()));
}

TEST(Nvfp4, CodesAndScalesGiveTheReferenceValues) {
  const std::string expected = vectors("F4_E2M1.f32");
  std::string codes;
  for (int i = 0; i < 16; i += 2) codes += char(i | (i + 1) << 4);
  Planes modelopt(1, 16), ct(1, 16);
  modelopt.set(0, codes).set(1, "\x38").set(3, as_bytes<float>({1}));
  ct.set(0, codes).set(1, "\x38").set(3, as_bytes<float>({1}));
  EXPECT_EQ(as_bytes(modelopt.decode("nvfp4_modelopt")), expected);
  EXPECT_EQ(as_bytes(ct.decode("nvfp4_ct")), expected);
  modelopt.set(3, as_bytes<float>({0.3f}));
  ct.set(3, as_bytes<float>({0.3f}));
  const auto multiplied = modelopt.decode("nvfp4_modelopt"), divided = ct.decode("nvfp4_ct");
  EXPECT_EQ(multiplied[7], 6 * (1.0f * 0.3f));
  EXPECT_EQ(divided[7], 6 * (1.0f * (1.0f / 0.3f)));
}

TEST(Nvfp4, ExpertsOfAStackHaveTheirOwnScalesAndFactors) {
  Planes stack(2, 16, 3);
  std::vector<uint8_t> scales = {0x38, 0x40, 0x48, 0x38, 0x40, 0x48};  // 1, 2, 4
  stack.set(0, std::string(3 * 2 * 8, '\x22')).set(1, as_bytes(scales)).set(3, as_bytes<float>({1, 10, 100}));
  const auto got = stack.decode("nvfp4_modelopt");
  const std::vector<float> rows = {1, 2, 40, 10, 200, 400};
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], rows[i / 16]) << i;
}

TEST(Dtypes, WhatIsEncodedComesBackNearly) {
  constexpr int64_t kRows = 131, kCols = 144;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(kRows * kCols);
  for (float& v : values) v = normal(random);
  for (const char* name : {"fp8_tensor", "fp8_tensor_bf16", "fp8_row", "fp8_row_bf16", "fp8_b128", "fp8_b128_bf16",
                           "nvfp4_modelopt", "nvfp4_ct"}) {
    Planes planes(kRows, kCols);
    for (int p : {0, 1, 3}) planes.set(p, std::string(kRows * kCols * 4, '\0'));
    ASSERT_EQ(FakeHost::get().dtype(name)->encode(values.data(), kRows, kCols, &planes.weight), TENON_OK)
        << FakeHost::get().message;
    const auto got = planes.decode(name);
    double error = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) error += std::pow(got[i] - values[i], 2), norm += std::pow(values[i], 2);
    EXPECT_LT(std::sqrt(error / norm), name[0] == 'f' ? 0.03 : 0.12) << name;
    EXPECT_EQ(FakeHost::get().dtype(name)->check(&planes.weight, 0, kRows), TENON_OK);
  }
}

TEST(Dtypes, RefuseWhatIsNotThere) {
  Planes planes(2, 16);
  planes.set(0, std::string(32, '\x38'));
  std::vector<float> out(64);
  EXPECT_EQ(FakeHost::get().dtype("fp8_b128")->decode(&planes.weight, 0, 1, out.data()), TENON_INVALID_ARGUMENT);
  EXPECT_NE(FakeHost::get().message.find("every plane"), std::string::npos);
  planes.set(1, std::string(4, '\0'));
  EXPECT_EQ(FakeHost::get().dtype("fp8_b128")->decode(&planes.weight, 1, 2, out.data()), TENON_INVALID_ARGUMENT);
  planes.set(1, as_bytes<float>({1}));
  planes.bytes[0][17] = '\x7f';
  EXPECT_EQ(FakeHost::get().dtype("fp8_b128")->check(&planes.weight, 0, 1), TENON_OK);
  EXPECT_EQ(FakeHost::get().dtype("fp8_b128")->check(&planes.weight, 0, 2), TENON_CORRUPT);
  EXPECT_NE(FakeHost::get().message.find("row 1, column 1 is not finite"), std::string::npos);
}

}  // namespace
}  // namespace tenon::safetensors
