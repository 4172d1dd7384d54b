// The products: packed float weights, bf16 products, and any dtype through its decoder.
#include "cpu_kernels.hpp"

namespace tenon::testing {
namespace {

const tenon_linear_attr kPlain = {sizeof(tenon_linear_attr), 0};

MakeCase product(const std::vector<std::string>& dtypes, int64_t k, const std::vector<int64_t>& outputs) {
  return [=](uint32_t rows) {
    OpCase c(TENON_OP_LINEAR, kPlain, Step::plain(rows));
    c.input(rows, k, rows_of(rows, k, 1));
    for (size_t i = 0; i < outputs.size(); ++i) {
      c.weight(dtypes[i % dtypes.size()], outputs[i], k, Random(20 + i).normals(size_t(outputs[i] * k)));
      c.output(outputs[i]);
    }
    return c;
  };
}

// Chains of K roundings: the bound is a few times √K × 2^-24.
TEST(CpuLinear, MultipliesPackedFloatWeights) {
  for (const char* dtype : {"f32", "f16", "bf16"}) check_op("linear.f32", product({dtype}, 96, {131}), 2e-6);
}

TEST(CpuLinear, TakesSeveralWeightsOfSeveralDtypes) {
  check_op("linear.f32", product({"f32", "bf16", "f16"}, 75, {64, 48, 16, 5}), 2e-6, {1, 2, 6, 7, 17});
}

TEST(CpuLinear, GoesOverLongRowsInSlabs) {
  check_op("linear.f32", product({"bf16"}, 1100, {40}), 4e-6, {1, 6, 7, 17, 40});
}

TEST(CpuLinear, ReadsAStridedInput) {
  const MakeCase make = [](uint32_t rows) {
    OpCase c(TENON_OP_LINEAR, kPlain, Step::plain(rows));
    c.strided(rows, 96, rows_of(rows, 96, 1), 3, 32, 32);
    c.weight("f32", 33, 96, Random(2).normals(33 * 96)).output(33);
    return c;
  };
  check_op("linear.f32", make, 2e-6, {1, 3, 17});
  check_op("linear.decoded.f32", make, 2e-6, {1, 3, 17});
}

TEST(CpuLinear, DecodesAnyDtype) {
  check_op("linear.decoded.f32", product({"f64", "i8", "f32"}, 96, {131, 16, 7}), 2e-6);
  check_op("linear.decoded.f32", product({"f16"}, 75, {40}), 2e-6, {1, 5, 17});
}

TEST(CpuLinear, MultipliesBf16ByBf16) {
  load_plugins();
  const tenon_kernel& kernel = Kit::instance().kernel("cpu.linear.bf16.avx512");
  if (!machine_has(kernel.feature)) GTEST_SKIP() << "the machine has no bf16 product";
  const MakeCase make = product({"bf16"}, 1234, {131, 16});
  std::vector<std::vector<float>> largest;
  for (uint32_t rows = 17; rows >= 1; --rows) {
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
      OpCase c = make(rows);
      c.phase(phase);
      for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
        const RunResult got = run_op(kernel, c, {.workers = workers});
        ASSERT_TRUE(got.accepted) << got.why_not;
        EXPECT_EQ(got.in_encoding[0], uint32_t(TENON_ENC_BF16));
        if (largest.empty()) largest = got.out;
        for (size_t i = 0; i < 2; ++i) {
          const std::span<const float> begin(largest[i].data(), got.out[i].size());
          EXPECT_TRUE(equal_bits(got.out[i], begin)) << "rows " << rows << ", workers " << workers;
          if (workers > 1) continue;
          const Difference d = compare(got.out[i], run_reference(c, got).out[i]);
          EXPECT_TRUE(d.comparable && d.relative_rms < 4e-6) << d.text();
        }
      }
    }
  }
}

TEST(CpuLinear, MultipliesBf16InTiles) {
  load_plugins();
  const tenon_kernel& kernel = Kit::instance().kernel("cpu.linear.bf16.amx");
  EXPECT_FALSE(offer_of(kernel, product({"bf16"}, 64, {32})(2)).accepted) << "in the decode phase";
  if (!machine_has(kernel.feature)) GTEST_SKIP() << "the machine has no tiles of bf16";
  for (const int64_t k : {int64_t{32}, int64_t{1120}}) {
    const MakeCase make = product({"bf16"}, k, {48, 331, 5});
    OpCase all = make(70);
    const RunResult largest = run_op(kernel, all.phase(TENON_PHASE_PREFILL));
    ASSERT_TRUE(largest.accepted) << largest.why_not;
    const RunResult want = run_reference(all, largest);
    for (size_t i = 0; i < 3; ++i) {
      const Difference d = compare(largest.out[i], want.out[i]);
      EXPECT_TRUE(d.comparable && d.relative_rms < 4e-6) << d.text();
    }
    for (const uint32_t rows : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u}) {
      for (const uint32_t workers : {1u, 3u, 7u}) {
        OpCase c = make(rows);
        const RunResult got = run_op(kernel, c.phase(TENON_PHASE_PREFILL), {.workers = workers});
        for (size_t i = 0; i < 3; ++i) {
          const std::span<const float> begin(largest.out[i].data(), got.out[i].size());
          EXPECT_TRUE(equal_bits(got.out[i], begin)) << k << " columns, rows " << rows << ", workers " << workers;
        }
      }
    }
  }
}

TEST(CpuLinear, RoundsNoRouterToBf16) {
  load_plugins();
  const tenon_kernel& kernel = Kit::instance().kernel("cpu.linear.bf16.avx512");
  if (!machine_has(kernel.feature)) GTEST_SKIP() << "the machine has no bf16 product";
  OpCase router = product({"bf16"}, 64, {32})(2);
  const tenon_linear_attr attr = {sizeof(tenon_linear_attr), TENON_WEIGHT_ROUTER};
  std::memcpy(router.attr.data(), &attr, sizeof attr);
  const RunResult offer = offer_of(kernel, router);
  EXPECT_FALSE(offer.accepted);
  EXPECT_NE(offer.why_not.find("router"), std::string::npos) << offer.why_not;
}

TEST(CpuLinear, RefusesWithReasons) {
  load_plugins();
  const RunResult packed = offer_of(Kit::instance().kernel("cpu.linear.f32.portable"), product({"i8"}, 64, {32})(2));
  EXPECT_FALSE(packed.accepted);
  EXPECT_NE(packed.why_not.find("i8"), std::string::npos) << packed.why_not;
  OpCase parts = product({"f32"}, 64, {32})(2);
  parts.weights[0].parts = 2;
  EXPECT_FALSE(offer_of(Kit::instance().kernel("cpu.linear.f32.portable"), parts).accepted);
}

}  // namespace
}  // namespace tenon::testing
