// Every block type against the reference values, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "fake_host.hpp"

namespace tenon::test {
namespace {

// The vectors of tests/data/unit/dequant.safetensors: TYPE.raw are blocks, TYPE.f32 their values.
class Vectors {
 public:
  Vectors() {
    std::ifstream in(std::string(TENON_TEST_DATA) + "/unit/dequant.safetensors", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = nlohmann::json::parse(bytes_.substr(8, length));
    data_ = 8 + length;
  }
  std::string get(const std::string& name) const {
    const auto& range = header_.at(name).at("data_offsets");
    return bytes_.substr(data_ + range[0].get<size_t>(), range[1].get<size_t>() - range[0].get<size_t>());
  }

 private:
  std::string bytes_;
  nlohmann::json header_;
  size_t data_;
};

tenon_weight weight_of(std::string& raw, int64_t rows, int64_t cols) {
  tenon_weight weight = {};
  weight.struct_size = sizeof weight, weight.rows = rows, weight.cols = cols;
  weight.row_bytes = int64_t(raw.size()) / rows;
  weight.plane[0] = tenon_addr(raw.data());
  return weight;
}

class Dequant : public ::testing::TestWithParam<const char*> {};

TEST_P(Dequant, EqualsReferenceBitForBit) {
  static const Vectors vectors;
  std::string upper = GetParam();
  for (char& c : upper) c = char(std::toupper(c));
  const tenon_dtype* dtype = FakeHost::get().dtype(GetParam());
  ASSERT_NE(dtype, nullptr);
  std::string raw = vectors.get(upper + ".raw");
  const std::string expected = vectors.get(upper + ".f32");
  constexpr int64_t kRows = 4;
  const int64_t cols = int64_t(expected.size()) / 4 / kRows;
  const tenon_weight weight = weight_of(raw, kRows, cols);
  ASSERT_EQ(cols % dtype->block_cols, 0);
  ASSERT_EQ(weight.row_bytes, cols / dtype->block_cols * dtype->block_bytes);
  std::string got(expected.size(), '\x7f');
  ASSERT_EQ(dtype->decode(&weight, 0, kRows, reinterpret_cast<float*>(got.data())), TENON_OK);
  for (size_t i = 0; i < expected.size() / 4; ++i) {
    ASSERT_EQ(got.substr(4 * i, 4), expected.substr(4 * i, 4)) << "column " << i;
  }
  // Two rows from the middle give the same values.
  std::string middle(expected.size() / 2, '\0');
  ASSERT_EQ(dtype->decode(&weight, 1, 2, reinterpret_cast<float*>(middle.data())), TENON_OK);
  EXPECT_EQ(middle, expected.substr(expected.size() / 4, expected.size() / 2));
  EXPECT_EQ(dtype->check(&weight, 0, kRows), TENON_OK);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Dequant,
                         ::testing::Values("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k",
                                           "q6_k", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s",
                                           "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Dtype, DecodeRefusesRowsOutsideTheWeight) {
  const tenon_dtype* dtype = FakeHost::get().dtype("q8_0");
  std::string raw(34 * 2, '\0');
  const tenon_weight weight = weight_of(raw, 2, 32);
  std::vector<float> out(96);
  EXPECT_EQ(dtype->decode(&weight, 1, 2, out.data()), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(dtype->decode(&weight, -1, 1, out.data()), TENON_INVALID_ARGUMENT);
  tenon_weight torn = weight;
  torn.cols = 31;
  EXPECT_EQ(dtype->decode(&torn, 0, 1, out.data()), TENON_INVALID_ARGUMENT);
}

TEST(Dtype, DecodeFollowsTheExpertStride) {
  const tenon_dtype* dtype = FakeHost::get().dtype("q8_0");
  std::string raw(34 * 4, '\0');
  for (int row = 0; row < 4; ++row) raw[34 * row + 1] = 0x3c, raw[34 * row + 2] = char(row + 1);  // d = 1, first code
  tenon_weight weight = weight_of(raw, 4, 32);
  weight.rows = 1, weight.n_expert = 2, weight.expert_stride = 68;
  std::vector<float> out(64);
  ASSERT_EQ(dtype->decode(&weight, 0, 2, out.data()), TENON_OK);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[32], 3.0f);
}

TEST(Dtype, CheckNamesTheRowThatIsNotFinite) {
  const tenon_dtype* dtype = FakeHost::get().dtype("q4_0");
  std::string raw(18 * 3, '\0');
  raw[18 * 2 + 1] = 0x7c;  // infinite scale in row 2
  const tenon_weight weight = weight_of(raw, 3, 32);
  EXPECT_EQ(dtype->check(&weight, 0, 2), TENON_OK);
  EXPECT_EQ(dtype->check(&weight, 0, 3), TENON_CORRUPT);
  EXPECT_NE(FakeHost::get().message.find("row 2"), std::string::npos) << FakeHost::get().message;
}

uint32_t crc32(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= uint8_t(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

struct Encoding {
  const char* dtype;
  double step;   // of one code, as a share of the block's largest magnitude
  uint32_t crc;  // of the bytes that the reference encoder gives for the same values
};
class Encode : public ::testing::TestWithParam<Encoding> {};

// A fixed sequence that needs no library: 24 bits of a linear congruence, with growing and shrinking blocks and a zero
// block.
std::vector<float> sample_values() {
  std::vector<float> values(32 * 64);
  uint32_t state = 12345;
  for (size_t i = 0; i < values.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float(state >> 8) / 16777216.0f - 0.5f) * float(1 + i / 32 % 7);
    if (i / 32 == 5) values[i] = 0;
  }
  return values;
}

TEST_P(Encode, EqualsTheReferenceEncoder) {
  const std::vector<float> values = sample_values();
  const tenon_dtype* dtype = FakeHost::get().dtype(GetParam().dtype);
  std::string raw(64 * dtype->block_bytes, '\x55');
  const tenon_weight weight = weight_of(raw, 8, 256);
  ASSERT_EQ(dtype->encode(values.data(), 8, 256, &weight), TENON_OK);
  EXPECT_EQ(crc32(raw), GetParam().crc);
  std::vector<float> back(values.size());
  ASSERT_EQ(dtype->decode(&weight, 0, 8, back.data()), TENON_OK);
  for (size_t block = 0; block < 64; ++block) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[32 * block + i]));
    for (size_t i = 32 * block; i < 32 * block + 32; ++i) {
      // Half a step, a whole one at the end where the codes are not symmetric, and the rounding of the f16 scale.
      EXPECT_LE(std::fabs(back[i] - values[i]), largest * (GetParam().step * 1.001 + 1.0 / 2048)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Encode,
                         ::testing::Values(Encoding{"q4_0", 1.0 / 8, 0x275ba915},
                                           Encoding{"q5_0", 1.0 / 16, 0xb49b5fa7},
                                           Encoding{"q8_0", 0.5 / 127, 0xee16b37d}),
                         [](const auto& info) { return std::string(info.param.dtype); });

TEST(Dtype, EncodeRefusesValuesThatAreNotFinite) {
  const tenon_dtype* dtype = FakeHost::get().dtype("q8_0");
  std::string raw(34 * 2, '\0');
  const tenon_weight weight = weight_of(raw, 2, 32);
  std::vector<float> values(64, 1.0f);
  values[40] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(dtype->encode(values.data(), 2, 32, &weight), TENON_INVALID_ARGUMENT);
  EXPECT_NE(FakeHost::get().message.find("row 1, column 8"), std::string::npos) << FakeHost::get().message;
}

}  // namespace
}  // namespace tenon::test
