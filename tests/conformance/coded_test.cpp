// Families whose weights are codes times scales, fp8 and fp4: every code and hostile scales against the decoders, and
// rows against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Kit& kit() {
  for (const char* name : {"fp8", "fp4", "gguf", "safetensors", "reference"})
    Kit::instance().load(std::string(TENON_PLUGIN_DIR "/libtenon_") + name + ".so");
  return Kit::instance();
}

struct Served {
  const char *family, *dtype;
};
constexpr Served kServed[] = {{"fp8", "fp8_e4m3"},      {"fp8", "fp8_tensor"},   {"fp8", "fp8_tensor_bf16"},
                              {"fp8", "fp8_row"},       {"fp8", "fp8_row_bf16"}, {"fp8", "fp8_b128"},
                              {"fp8", "fp8_b128_bf16"}, {"fp4", "nvfp4"},        {"fp4", "nvfp4_modelopt"},
                              {"fp4", "nvfp4_ct"}};

// Kernels of an op for a dtype, in every instruction set that the machine has.
std::vector<const tenon_kernel*> variants(const Served& served, const char* op) {
  std::vector<const tenon_kernel*> out;
  for (const char* isa : {"portable", "avx2", "avx512"}) {
    const tenon_kernel& kernel = kit().kernel(std::string(served.family) + "." + op + "." + isa);
    if (machine_has({kernel.feature.data, size_t(kernel.feature.size)})) out.push_back(&kernel);
  }
  return out;
}

bool is_fp8(const std::string& dtype) { return dtype.starts_with("fp8"); }
bool is_fp8(const Weight& w) { return is_fp8(w.dtype); }

void put_scale(Weight& w, int plane, size_t index, float value) {
  if (w.dtype.ends_with("_bf16")) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint16_t half = uint16_t(bits >> 16);
    std::memcpy(w.plane[plane].data() + index * 2, &half, 2);
  } else {
    std::memcpy(w.plane[plane].data() + index * 4, &value, 4);
  }
}

// Every finite code, and scales from subnormal to huge, with both signs.
Weight hostile_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed) {
  Random random(seed);
  Weight w = Weight::encoded(dtype == "nvfp4" ? "nvfp4_modelopt" : dtype, rows, cols,
                             std::vector<float>(size_t(rows * cols), 1.0f));
  const auto finite_e4m3 = [&] {
    const uint8_t code = uint8_t(random.bits() >> 24);
    return (code & 0x7f) == 0x7f ? uint8_t(code ^ 1) : code;
  };
  const auto hostile = [&] {
    static constexpr float kScales[] = {1.0f, -0.25f, 0.0f, 1e-39f, 3e-20f, 2e25f, 0.017f, -3.7f};
    return kScales[random.below(std::size(kScales))];
  };
  if (dtype == "nvfp4") {
    const size_t blocks = size_t(rows * cols / 64);
    std::vector<uint8_t> bytes(blocks * 36);
    for (uint8_t& byte : bytes) byte = uint8_t(random.bits() >> 24);  // every scale is a number there
    return Weight::raw(dtype, rows, cols, bytes.data(), bytes.size());
  }
  for (uint8_t& code : w.plane[TENON_PLANE_CODES]) code = is_fp8(w) ? finite_e4m3() : uint8_t(random.bits() >> 24);
  if (!is_fp8(w)) {
    for (uint8_t& scale : w.plane[TENON_PLANE_SCALES]) scale = finite_e4m3();
    put_scale(w, TENON_PLANE_MACRO, 0, dtype == "nvfp4_ct" ? 37.0f : -1e-3f);
    return w;
  }
  const size_t item = dtype.ends_with("_bf16") ? 2 : 4;
  for (const int plane : {TENON_PLANE_SCALES, TENON_PLANE_MACRO})
    for (size_t i = 0; i < w.plane[plane].size() / item; ++i) put_scale(w, plane, i, hostile());
  return w;
}

OpCase linear_case(const std::vector<Weight>& weights, int64_t rows, const std::vector<float>& x,
                   uint32_t phase = TENON_PHASE_PREFILL) {
  OpCase c(TENON_OP_LINEAR, tenon_linear_attr{sizeof(tenon_linear_attr), 0}, Step::plain(uint32_t(rows)));
  c.input(rows, weights[0].cols, {x.begin(), x.begin() + rows * weights[0].cols}).phase(phase);
  for (const Weight& w : weights) c.weight(w).output(w.rows);
  return c;
}

// Each output within a few roundings of a chain of its own products' sizes.
void expect_products(const Weight& w, const std::vector<float>& x, int64_t rows, const std::vector<float>& got) {
  const std::vector<float> values = w.decoded();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < w.rows; ++n) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        const double product = double(x[size_t(r * w.cols + k)]) * double(values[size_t(n * w.cols + k)]);
        want += product, size += std::fabs(product);
      }
      const double found = double(got[size_t(r * w.rows + n)]);
      ASSERT_LE(std::fabs(found - want), 2e-6 * size + 1e-37)
          << w.dtype << " row " << r << " output " << n << ": " << found << ", expected " << want;
    }
  }
}

class CodedTest : public ::testing::TestWithParam<Served> {
 protected:
  void SetUp() override { kit(); }
  std::string dtype() const { return GetParam().dtype; }
  // Columns that fit the dtype: at least n, and for FP8 odd ones.
  int64_t cols(int64_t n) const {
    if (is_fp8(dtype())) return n | 3;
    const int64_t block = dtype() == "nvfp4" ? 64 : 16;
    return (n + block - 1) / block * block;
  }
};

TEST_P(CodedTest, MultipliesEveryCodeUnderHostileScales) {
  for (const tenon_kernel* kernel : variants(GetParam(), "linear")) {
    for (const int64_t k : {int64_t{64}, cols(300), cols(1200)}) {
      const Weight w = hostile_weight(dtype(), 150, k, uint64_t(k));
      const std::vector<float> x = Random(2).normals(size_t(30 * k));
      for (const int64_t rows : {1, 5, 30}) {
        const RunResult got = run_op(*kernel, linear_case({w}, rows, x));
        ASSERT_TRUE(got.accepted) << got.why_not;
        EXPECT_TRUE(got.offer.flags & TENON_OFFER_ROW_EXACT);
        ASSERT_EQ(got.in_encoding[0], uint32_t(TENON_ENC_F32));  // so that it serves --precision exact
        expect_products(w, x, rows, got.out[0]);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Row counts on both sides of where decoding changes its way, and columns past the slabs that it takes.
TEST_P(CodedTest, GivesARowTheSameBitsInEveryCompanyAndForEveryNumberOfWorkers) {
  for (const tenon_kernel* kernel : variants(GetParam(), "linear")) {
    for (const int64_t k : {cols(80), cols(1100)}) {
      const Weight w = hostile_weight(dtype(), 131, k, 3);
      const std::vector<float> x = Random(4).normals(size_t(250 * k));
      const RunResult all = run_op(*kernel, linear_case({w}, 250, x));
      for (int64_t rows = 1; rows < 250; rows += rows < 34 ? 1 : 54) {
        const uint32_t phase = rows < 16 ? TENON_PHASE_DECODE : TENON_PHASE_PREFILL;
        const uint32_t workers = uint32_t(1 + rows % 7);
        const RunResult part = run_op(*kernel, linear_case({w}, rows, x, phase), {.workers = workers});
        ASSERT_TRUE(equal_bits(part.out[0], std::span(all.out[0]).first(size_t(rows * w.rows))))
            << rows << " rows, " << workers << " workers, " << k << " columns";
      }
    }
  }
}

TEST_P(CodedTest, KeepsAFaultInItsRowAndItsColumn) {
  for (const tenon_kernel* kernel : variants(GetParam(), "linear")) {
    const int64_t k = cols(200);
    Weight w = hostile_weight(dtype(), 40, k, 5);
    std::vector<float> x = Random(6).normals(size_t(30 * k));
    const RunResult clean = run_op(*kernel, linear_case({w}, 30, x));
    x[size_t(7 * k + 100)] = kNan;
    x[size_t(13 * k + 50)] = kInf;
    const bool has_nan = dtype() != "nvfp4";  // whose every byte is a number
    if (has_nan)
      w.plane[is_fp8(w) ? TENON_PLANE_CODES : TENON_PLANE_SCALES][size_t(is_fp8(w) ? 17 * k + 9 : 17 * k / 16)] = 0xff;
    for (const int64_t rows : {14, 30}) {
      const RunResult got = run_op(*kernel, linear_case({w}, rows, x));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < w.rows; ++n) {
          const float value = got.out[0][size_t(r * w.rows + n)];
          if (r == 7 || (has_nan && n == 17)) {
            EXPECT_TRUE(std::isnan(value)) << r << " " << n;
          } else if (r == 13) {
            EXPECT_FALSE(std::isfinite(value)) << r << " " << n;
          } else {
            EXPECT_EQ(value, clean.out[0][size_t(r * w.rows + n)]) << r << " " << n;
          }
        }
      }
    }
  }
}

TEST_P(CodedTest, SaysWhyItServesNoOtherWeight) {
  const tenon_kernel& kernel = *variants(GetParam(), "linear")[0];
  const std::vector<float> x(512);
  const auto why = [&](const Weight& w) { return offer_of(kernel, linear_case({w}, 1, x)).why_not; };
  EXPECT_NE(why(Weight::encoded("f32", 4, 64, std::vector<float>(256))).find("not f32"), std::string::npos);
  Weight w = hostile_weight(dtype(), 16, 128, 7);
  w.parts = 2;
  EXPECT_NE(why(w).find("2 parts"), std::string::npos);
  w.parts = 0, w.n_expert = 4;
  EXPECT_NE(why(w).find("experts"), std::string::npos);
  w.n_expert = 0, w.cols = 120;
  if (!is_fp8(w)) {
    EXPECT_NE(why(w).find("120 columns"), std::string::npos);
  }
}

// Each expert's own values, rows that meet alone and in crowds, more output columns than a vector holds.
TEST_P(CodedTest, SumsExpertsLikeTheReference) {
  constexpr uint32_t kExperts = 5, kSlots = 2;
  constexpr int64_t kHidden = 128, kWidth = 192, kOut = 150;
  const auto stack = [&](int64_t rows, int64_t k, uint64_t seed) {
    std::vector<Weight> experts;
    for (uint32_t e = 0; e < kExperts; ++e) {
      const std::vector<float> values = Random(seed + e).normals(size_t(rows * k), 0.05f);
      experts.push_back(dtype() == "nvfp4" ? hostile_weight(dtype(), rows, k, seed + e)
                                           : Weight::encoded(dtype(), rows, k, values));
    }
    return stacked(experts, 64);
  };
  const Weight gate = stack(kHidden, kWidth, 10), up = stack(kHidden, kWidth, 20), down = stack(kOut, kHidden, 30);
  const float scale = dtype() == "nvfp4" ? 1e-5f : 1.0f;  // random blocks are large
  const std::vector<float> x = Random(8).normals(size_t{70} * kWidth, scale);
  const auto make = [&](uint32_t rows) {
    const tenon_expert_ffn_attr attr = {sizeof attr, TENON_ACT_SILU, 0, 0, 0, kSlots};
    OpCase c(TENON_OP_EXPERT_FFN, attr, Step::plain(rows));
    std::vector<int32_t> ids;
    for (uint32_t r = 0; r < rows; ++r) {
      ids.push_back(r % 9 == 4 ? 4 : 1);
      ids.push_back(r % 2 ? 3 : 0);
    }
    c.input(rows, kWidth, {x.begin(), x.begin() + rows * kWidth}).ids(rows, kSlots, ids);
    c.input(rows, kSlots, std::vector<float>(rows * kSlots, 0.6f)).weight(gate).weight(up).weight(down);
    return c.output(kOut);
  };
  for (const tenon_kernel* kernel : variants(GetParam(), "expert_ffn")) {
    const RunResult all = run_op(*kernel, make(70));
    ASSERT_TRUE(all.accepted) << all.why_not;
    const Difference difference = compare(all.out[0], run_reference(make(70), all).out[0]);
    EXPECT_TRUE(difference.comparable && difference.relative_rms < 3e-6) << difference.text();
    for (const uint32_t rows : {1u, 2u, 7u, 33u})
      for (const uint32_t workers : {1u, 3u})
        EXPECT_TRUE(equal_bits(run_op(*kernel, make(rows), {.workers = workers}).out[0],
                               std::span(all.out[0]).first(rows * size_t(kOut))))
            << rows << " rows, " << workers << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CodedTest, ::testing::ValuesIn(kServed),
                         [](const auto& info) { return std::string(info.param.dtype); });

// One packed form: the same numbers give the same bits from every container and in company.
TEST(CodedFamilies, TakeTheSameNumbersFromEveryContainer) {
  kit();
  const int64_t rows = 40, k = 192;
  const Weight planes = hostile_weight("nvfp4_modelopt", rows, k, 11);
  Weight multiplied = planes, divided = planes;
  divided.dtype = "nvfp4_ct";
  put_scale(multiplied, TENON_PLANE_MACRO, 0, 1.0f), put_scale(divided, TENON_PLANE_MACRO, 0, 1.0f);
  std::vector<uint8_t> blocks;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < k; c += 64) {
      for (int64_t g = 0; g < 4; ++g) {
        uint8_t& scale = multiplied.plane[TENON_PLANE_SCALES][size_t((r * k + c) / 16 + g)];
        scale &= 0x7f;  // which has no sign in a block
        divided.plane[TENON_PLANE_SCALES][size_t((r * k + c) / 16 + g)] = scale;
        blocks.push_back(scale);
      }
      for (int64_t g = 0; g < 4; ++g) {
        const uint8_t* codes = planes.plane[TENON_PLANE_CODES].data() + (r * k + c + 16 * g) / 2;
        const auto code = [&](int64_t i) { return codes[i / 2] >> (i % 2 * 4) & 15; };
        for (int64_t i = 0; i < 8; ++i) blocks.push_back(uint8_t(code(i) | code(i + 8) << 4));
      }
    }
  }
  const Weight block = Weight::raw("nvfp4", rows, k, blocks.data(), blocks.size());
  const std::vector<float> x = Random(12).normals(size_t(3 * k));
  for (const tenon_kernel* kernel : variants({"fp4", ""}, "linear")) {
    const RunResult got = run_op(*kernel, linear_case({multiplied, divided, block}, 3, x));
    ASSERT_TRUE(got.accepted) << got.why_not;
    EXPECT_TRUE(equal_bits(got.out[0], got.out[1]));
    EXPECT_TRUE(equal_bits(got.out[0], got.out[2]));
    EXPECT_TRUE(equal_bits(got.out[0], run_op(*kernel, linear_case({block}, 3, x)).out[0]));
  }
}

}  // namespace
}  // namespace tenon::testing
