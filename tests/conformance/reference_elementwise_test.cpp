// The reference's elementwise ops on cases small enough to work out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();

class ReferenceElementwise : public ::testing::Test {
 protected:
  void SetUp() override { load_reference(); }
};

TEST_F(ReferenceElementwise, AddAndMulTakeTwoValues) {
  for (const uint32_t op : {TENON_OP_ADD, TENON_OP_MUL}) {
    OpCase c(op, Step::plain(2));
    c.input(2, 3, {1, 2, 3, 4, 5, 6}).input(2, 3, {10, 20, 30, -1, -2, -3}).output(3);
    const auto want =
        op == TENON_OP_ADD ? std::vector<float>{11, 22, 33, 3, 3, 3} : std::vector<float>{10, 40, 90, -4, -10, -18};
    EXPECT_EQ(run_reference(c).out[0], want);
  }
}

TEST_F(ReferenceElementwise, MulTakesAWeightOfTheColumnsOrOneNumber) {
  OpCase columns(TENON_OP_MUL, Step::plain(1));
  columns.input(1, 3, {1, 2, 3}).weight("f32", 1, 3, {2, 4, 8}).output(3);
  EXPECT_EQ(run_reference(columns).out[0], (std::vector<float>{2, 8, 24}));
  OpCase one(TENON_OP_MUL, Step::plain(1));
  one.input(1, 3, {1, 2, 3}).weight("bf16", 1, 1, {-2}).output(3);
  EXPECT_EQ(run_reference(one).out[0], (std::vector<float>{-2, -4, -6}));
}

TEST_F(ReferenceElementwise, AddTakesABias) {
  OpCase c(TENON_OP_ADD, Step::plain(2));
  c.input(2, 3, {1, 2, 3, 4, 5, 6}).weight("f16", 1, 3, {10, -1, 0.5f}).output(3);
  EXPECT_EQ(run_reference(c).out[0], (std::vector<float>{11, 1, 3.5f, 14, 4, 6.5f}));
}

TEST_F(ReferenceElementwise, ScaleAndSoftcap) {
  OpCase scale(TENON_OP_SCALE, tenon_scale_attr{sizeof(tenon_scale_attr), 0.5f}, Step::plain(1));
  scale.input(1, 2, {3, -8}).output(2);
  EXPECT_EQ(run_reference(scale).out[0], (std::vector<float>{1.5f, -4}));
  OpCase cap(TENON_OP_SOFTCAP, tenon_scale_attr{sizeof(tenon_scale_attr), 30.0f}, Step::plain(1));
  cap.input(1, 3, {0, 30, -1e30f}).output(3);
  EXPECT_EQ(run_reference(cap).out[0], (std::vector<float>{0, float(30 * std::tanh(1.0)), -30}));
}

TEST_F(ReferenceElementwise, GluActivatesTheGateAndAppliesLimits) {
  OpCase silu(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_SILU, 0, 0}, Step::plain(1));
  silu.input(1, 2, {1, -2}).input(1, 2, {3, 5}).output(2);
  const auto y = run_reference(silu).out[0];
  EXPECT_FLOAT_EQ(y[0], 3 * 0.731058578630004879f);
  EXPECT_FLOAT_EQ(y[1], 5 * -2 * 0.119202922022117556f);
  OpCase gelu(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_GELU_TANH, 0, 0}, Step::plain(1));
  gelu.input(1, 1, {1}).input(1, 1, {2}).output(1);
  EXPECT_NEAR(run_reference(gelu).out[0][0], 2 * 0.8411919906, 1e-6);
  OpCase limited(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_NONE, 2, 0}, Step::plain(1));
  limited.input(1, 3, {9, -9, 1}).input(1, 3, {9, -9, 1}).output(3);
  EXPECT_EQ(run_reference(limited).out[0], (std::vector<float>{4, 18, 1}));
  // The limit stands behind the activation, above only for the gate; before it where the activation is SWIGLU_OAI.
  OpCase behind(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_SILU, 7, 0}, Step::plain(1));
  behind.input(1, 3, {20, 20, -20}).input(1, 3, {20, -20, 1}).output(3);
  const auto z = run_reference(behind).out[0];
  EXPECT_EQ(z[0], 49);
  EXPECT_EQ(z[1], -49);
  EXPECT_FLOAT_EQ(z[2], float(-20 / (1 + std::exp(20.0))));
  OpCase oai(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_SWIGLU_OAI, 7, 1}, Step::plain(1));
  oai.input(1, 1, {20}).input(1, 1, {-20}).output(1);
  EXPECT_FLOAT_EQ(run_reference(oai).out[0][0], float(7 / (1 + std::exp(-7.0)) * -6));
}

TEST_F(ReferenceElementwise, GateSharesOneNumberInAGroupAndReadsAStridedView) {
  OpCase c(TENON_OP_GATE, tenon_gate_attr{sizeof(tenon_gate_attr), TENON_ACT_SIGMOID, 2, 0}, Step::plain(2));
  c.strided(2, 4, {1, 2, 3, 4, 5, 6, 7, 8}, 2, 3, 5).input(2, 2, {0, 100, -100, 0}).output(4);
  const double closed = 1 / (1 + std::exp(100.0));
  EXPECT_EQ(run_reference(c).out[0],
            (std::vector<float>{0.5f, 1, 3, 4, float(5 * closed), float(6 * closed), 3.5f, 4}));
}

TEST_F(ReferenceElementwise, ConcatPutsBBehindA) {
  OpCase c(TENON_OP_CONCAT, Step::plain(2));
  c.input(2, 1, {1, 2}).input(2, 2, {3, 4, 5, 6}).output(3);
  EXPECT_EQ(run_reference(c).out[0], (std::vector<float>{1, 3, 4, 2, 5, 6}));
}

TEST_F(ReferenceElementwise, EncodeFollowsTheDefinitionOfQ8) {
  std::vector<float> x(64, 0.0f);
  x[0] = -127, x[1] = 63.5f, x[2] = 0.5f, x[3] = 1.5f, x[17] = 2;  // scale 1: ties go to even
  x[32] = 1, x[40] = kNan;                                         // the second block shows its fault
  OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32}, Step::plain(1));
  c.input(1, 64, x).output(64);
  const RunResult got = run_reference(c);
  ASSERT_EQ(got.out_encoding[0], uint32_t(TENON_ENC_Q8_32));
  EXPECT_EQ(std::vector<float>(got.out[0].begin(), got.out[0].begin() + 4), (std::vector<float>{-127, 64, 0, 2}));
  EXPECT_EQ(got.out[0][17], 2);
  for (int i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(got.out[0][size_t(i)]));
}

TEST_F(ReferenceElementwise, EncodeAgreesWithTheHarnessOnRandomRows) {
  for (const uint32_t encoding : {TENON_ENC_Q8_32, TENON_ENC_BF16, TENON_ENC_F16}) {
    const auto x = Random(encoding).normals(4 * 96, 3);
    OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), encoding}, Step::plain(4));
    c.input(4, 96, x).output(96);
    Bytes row(size_t(tenon_encoding_row_bytes(encoding, 96)));
    std::vector<float> want(4 * 96);
    for (int r = 0; r < 4; ++r) {
      encode_row(encoding, x.data() + r * 96, 96, row.data());
      decode_row(encoding, row.data(), 96, want.data() + r * 96);
    }
    EXPECT_TRUE(equal_bits(run_reference(c).out[0], want)) << "encoding " << encoding;
  }
}

TEST_F(ReferenceElementwise, HalfFloatsRoundAtTheEdges) {
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(to_f16(0x1p-24f), 1);
  EXPECT_EQ(to_f16(0x1p-25f), 0);          // a tie goes to even
  EXPECT_EQ(to_f16(-0x1.8p-24f), 0x8002);  // so does this one
  EXPECT_EQ(to_f16(2049.0f), to_f16(2048.0f));
  EXPECT_EQ(to_f16(2047.5f), to_f16(2048.0f));
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) ASSERT_EQ(to_f16(from_f16(uint16_t(bits))), bits);
}

TEST_F(ReferenceElementwise, LinearFoldsDecodedOperandsOfAnyEncoding) {
  OpCase c(TENON_OP_LINEAR, tenon_linear_attr{sizeof(tenon_linear_attr), 0}, Step::plain(2));
  c.input(2, 3, {1, 2, 3, -1, 0, 1}).weight("f16", 2, 3, {1, 1, 1, 2, 0, -2}).weight("i8", 1, 3, {10, 20, 30});
  c.output(2).output(1);
  const RunResult got = run_reference(c);
  EXPECT_EQ(got.out[0], (std::vector<float>{6, -4, 0, -4}));
  EXPECT_EQ(got.out[1], (std::vector<float>{140, 20}));

  OpCase q8(TENON_OP_LINEAR, tenon_linear_attr{sizeof(tenon_linear_attr), 0}, Step::plain(1));
  std::vector<float> x(32, 1.0f);
  x[0] = 127, x[5] = 3.3f;  // the code of 3.3 is 3
  q8.input(1, 32, x).weight("f32", 1, 32, std::vector<float>(32, 1.0f)).output(1);
  RunOptions forced;
  forced.in_encoding = {TENON_ENC_Q8_32};
  EXPECT_EQ(run_op(Kit::instance().kernel("reference.linear"), q8, forced).out[0][0], 127 + 3 + 30);
}

}  // namespace
}  // namespace tenon::testing
