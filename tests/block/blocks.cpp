#include "blocks.hpp"

#include <cstring>
#include <map>

namespace tenon::block_test {
namespace {

// Where a block's f16 fields are. iq1_m's lies in the top bits of four words and is set apart.
const std::vector<int>& half_fields(const std::string& dtype) {
  static const std::map<std::string, std::vector<int>> fields = {
      {"q4_0", {0}},      {"q4_1", {0, 2}}, {"q5_0", {0}},    {"q5_1", {0, 2}}, {"q8_0", {0}},   {"iq4_nl", {0}},
      {"q2_k", {80, 82}}, {"q3_k", {108}},  {"q4_k", {0, 2}}, {"q5_k", {0, 2}}, {"q6_k", {208}}, {"iq4_xs", {0}},
      {"mxfp4", {}},      {"iq1_s", {0}},   {"iq1_m", {}},    {"iq2_xxs", {0}}, {"iq2_xs", {0}}, {"iq2_s", {0}},
      {"iq3_xxs", {0}},   {"iq3_s", {0}},   {"tq1_0", {52}},  {"tq2_0", {64}}};
  return fields.at(dtype);
}

void set_iq1_m_scale(uint8_t* block, uint16_t half) {
  for (int i = 0; i < 4; ++i) {
    uint8_t& high = block[49 + 2 * i];
    high = uint8_t((high & 0x0f) | (half >> (4 * i) & 15) << 4);
  }
}

}  // namespace

testing::Kit& kit() {
  testing::Kit& kit = testing::Kit::instance();
  for (const char* name : {"gguf", "reference", "block"})
    kit.load(std::string(TENON_PLUGIN_DIR) + "/libtenon_" + name + ".so");
  return kit;
}

const std::vector<std::string>& dtypes() {
  static const std::vector<std::string> names = {
      "q4_0",   "q4_1",  "q5_0",  "q5_1",  "q8_0",    "iq4_nl", "q2_k",  "q3_k",    "q4_k",  "q5_k",  "q6_k",
      "iq4_xs", "mxfp4", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0"};
  return names;
}

std::vector<std::string> linear_kernels() {
  std::vector<std::string> names;
  const tenon_linear_attr attr = {sizeof(tenon_linear_attr), 0};
  const std::vector<uint8_t> zeros(34);
  testing::OpCase c(TENON_OP_LINEAR, attr, testing::Step::plain(1));
  kit();
  c.input(1, 32, std::vector<float>(32)).weight(Weight::raw("q8_0", 1, 32, zeros.data(), zeros.size())).output(1);
  for (const char* name : {"portable", "avx2", "avx512", "amx"}) {
    names.push_back(std::string("block.linear.") + name);
    if (!testing::offer_of(kit().kernel(names.back()), c.phase(TENON_PHASE_PREFILL)).accepted) names.pop_back();
  }
  return names;
}

Weight random_weight(const std::string& dtype, int64_t rows, int64_t cols, Random& random, Scales scales) {
  const tenon_dtype& record = kit().dtype(dtype);
  const size_t n = static_cast<size_t>(rows * (cols / record.block_cols)), block = record.block_bytes;
  std::vector<uint8_t> bytes(n * block);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits() >> 20);
  static constexpr float kHostile[] = {0.0f, -0.0f, 6e-8f, 5e-5f, -0.02f, 1.0f, 60000.0f, 0.01f};
  for (size_t b = 0; b < n; ++b) {
    const auto scale = [&] {
      return testing::to_f16(scales == Scales::kUsual ? 0.01f * (1.5f + random.uniform()) : kHostile[random.below(8)]);
    };
    for (const int field : half_fields(dtype)) {
      const uint16_t half = scale();
      std::memcpy(&bytes[b * block + static_cast<size_t>(field)], &half, sizeof half);
    }
    if (dtype == "iq1_m") set_iq1_m_scale(&bytes[b * block], scale());
    // A byte is the exponent of mxfp4's scale.
    static constexpr uint8_t kExponents[] = {0, 1, 2, 60, 120, 127, 144, 125};
    if (dtype == "mxfp4")
      bytes[b * block] = scales == Scales::kUsual ? uint8_t(119 + random.below(3)) : kExponents[random.below(8)];
  }
  return Weight::raw(dtype, rows, cols, bytes.data(), bytes.size());
}

void set_scale(Weight& weight, int64_t row, int64_t block, uint16_t half) {
  const tenon_dtype& record = kit().dtype(weight.dtype);
  uint8_t* at = weight.plane[0].data() + row * weight.row_bytes + block * record.block_bytes;
  if (weight.dtype == "iq1_m") return set_iq1_m_scale(at, half);
  std::memcpy(at + half_fields(weight.dtype)[0], &half, sizeof half);
}

void copy_scales(const Weight& from, Weight& to) {
  const tenon_dtype& record = kit().dtype(from.dtype);
  for (size_t at = 0; at < from.plane[0].size(); at += record.block_bytes) {
    for (const int field : half_fields(from.dtype))
      std::memcpy(&to.plane[0][at + static_cast<size_t>(field)], &from.plane[0][at + static_cast<size_t>(field)], 2);
    if (from.dtype == "mxfp4") to.plane[0][at] = from.plane[0][at];
    for (size_t i = 49; from.dtype == "iq1_m" && i < 56; i += 2)
      to.plane[0][at + i] = uint8_t((to.plane[0][at + i] & 0x0f) | (from.plane[0][at + i] & 0xf0));
  }
}

}  // namespace tenon::block_test
