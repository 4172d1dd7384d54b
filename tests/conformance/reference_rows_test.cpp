// The reference's row ops: embed, norm, rope, select_rows, logits_tail, and the ops of experts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

class ReferenceRows : public ::testing::Test {
 protected:
  void SetUp() override { load_reference(); }
};

TEST_F(ReferenceRows, EmbedScalesTableRowsAndNotOverlayRows) {
  Step step = Step::plain(3);
  step.overlay[1] = 0;
  OpCase c(TENON_OP_EMBED, tenon_embed_attr{sizeof(tenon_embed_attr), 10}, step);
  c.ids(3, 1, {2, 99, 0}).input(1, 2, {7, 8}).weight("bf16", 3, 2, {1, 2, 3, 4, 5, 6}).output(2);
  EXPECT_EQ(run_reference(c).out[0], (std::vector<float>{50, 60, 7, 8, 10, 20}));
}

TEST_F(ReferenceRows, EmbedRefusesATokenBeyondTheTable) {
  OpCase c(TENON_OP_EMBED, tenon_embed_attr{sizeof(tenon_embed_attr), 1}, Step::plain(1));
  c.ids(1, 1, {3}).weight("f32", 3, 2, {1, 2, 3, 4, 5, 6}).output(2);
  EXPECT_THROW(run_reference(c), std::runtime_error);
}

TEST_F(ReferenceRows, NormUsesEachGroupsStatisticAndSharesTheWeight) {
  OpCase c(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 0, 2}, Step::plain(1));
  c.input(1, 4, {3, 4, 0, 5}).weight("f32", 1, 2, {1, 2}).output(4);
  const double first = std::sqrt(12.5);
  const auto y = run_reference(c).out[0];
  EXPECT_EQ(y, (std::vector<float>{float(3 / first), float(4 / first * 2), 0, float(5 / first * 2)}));
  OpCase l2(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_L2, 11, 0}, Step::plain(1));
  l2.input(1, 2, {3, 4}).output(2);
  EXPECT_EQ(run_reference(l2).out[0], (std::vector<float>{0.5f, float(4.0 / 6)}));
}

tenon_rope_attr rope(uint32_t style, uint32_t head_dim, uint32_t n_rot) {
  tenon_rope_attr attr = {};
  attr.struct_size = sizeof attr, attr.style = style, attr.head_dim = head_dim, attr.n_rot = n_rot, attr.magnitude = 1;
  return attr;
}

TEST_F(ReferenceRows, RopePairsByStyleAndLeavesOtherColumns) {
  Step step({SeqRows{3, 1}});
  const float angle = 3 * 0.25f;
  const double s = std::sin(double(angle)), c = std::cos(double(angle));
  OpCase half(TENON_OP_ROPE, rope(TENON_ROPE_HALF, 5, 4), step);
  half.input(1, 5, {1, 2, 3, 4, 9}).weight("f32", 1, 2, {0.25f, 0}).output(5);
  EXPECT_EQ(run_reference(half).out[0], (std::vector<float>{float(c - 3 * s), 2, float(s + 3 * c), 4, 9}));
  OpCase adjacent(TENON_OP_ROPE, rope(TENON_ROPE_ADJACENT, 5, 4), step);
  adjacent.input(1, 5, {1, 2, 3, 4, 9}).weight("f32", 1, 2, {0.25f, 0}).output(5);
  EXPECT_EQ(run_reference(adjacent).out[0], (std::vector<float>{float(c - 2 * s), float(s + 2 * c), 3, 4, 9}));
}

TEST_F(ReferenceRows, RopeSectionsInterleaveThePositionStreams) {
  Step step({SeqRows{0, 1}});
  for (uint32_t stream = 0; stream < 3; ++stream) step.position[stream * step.max_rows] = int32_t(stream) + 1;
  tenon_rope_attr attr = rope(TENON_ROPE_ADJACENT, 12, 12);
  attr.sections[0] = 3, attr.sections[1] = 2, attr.sections[2] = 1;
  OpCase c(TENON_OP_ROPE, attr, step);
  c.input(1, 12, {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}).weight("f32", 1, 6, std::vector<float>(6, 0.5f)).output(12);
  const auto y = run_reference(c).out[0];
  const int want[6] = {0, 1, 2, 0, 1, 0};  // pairs 1 and 4 are below 3 × 2, pair 2 below 3 × 1, pair 5 is not
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(y[2 * i], float(std::cos((want[i] + 1) * 0.5))) << "pair " << i;
}

TEST_F(ReferenceRows, RopeRoundsItsAngleToF32) {
  Step step({SeqRows{123457, 1}});
  const float inv_freq = 0.0123456f, angle = 123457.0f * inv_freq;
  OpCase c(TENON_OP_ROPE, rope(TENON_ROPE_HALF, 2, 2), step);
  c.input(1, 2, {1, 0}).weight("f32", 1, 1, {inv_freq}).output(2);
  EXPECT_EQ(run_reference(c).out[0],
            (std::vector<float>{float(std::cos(double(angle))), float(std::sin(double(angle)))}));
}

TEST_F(ReferenceRows, SelectRowsGivesTheNamedRowsInOrder) {
  Step step = Step::plain(3);
  step.select({2, 0});
  OpCase c(TENON_OP_SELECT_ROWS, step);
  c.input(3, 2, {1, 2, 3, 4, 5, 6}).output(2, TENON_DOMAIN_OUTPUT_ROWS);
  EXPECT_EQ(run_reference(c).out[0], (std::vector<float>{5, 6, 1, 2}));
}

TEST_F(ReferenceRows, LogitsTailCapsMasksAndReportsFaults) {
  const float infinity = std::numeric_limits<float>::infinity();
  Step step = Step::plain(2);
  step.select({0, 1});
  OpCase c(TENON_OP_LOGITS_TAIL, tenon_scale_attr{sizeof(tenon_scale_attr), 2}, step);
  c.input(2, 3, {0, 2, 9, 1, infinity, 0}).domain(TENON_DOMAIN_OUTPUT_ROWS);
  c.weight("i32", 1, 1, {2}).output(3, TENON_DOMAIN_OUTPUT_ROWS);
  const RunResult got = run_reference(c);
  EXPECT_EQ(got.out[0][1], float(2 * std::tanh(1.0)));
  EXPECT_EQ(got.out[0][2], -infinity);
  EXPECT_EQ(got.status[0], 0u);
  EXPECT_EQ(got.status[1], 1u);
}

TEST_F(ReferenceRows, RouteTakesTheHighestWithTiesToTheLowerIndexAndNanLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  tenon_route_attr attr = {};
  attr.struct_size = sizeof attr, attr.top_k = 2, attr.normalize = 1, attr.scale = 1;
  OpCase c(TENON_OP_ROUTE, attr, Step::plain(2));
  c.input(2, 4, {1, 3, 3, 3, nan, -1, nan, -1}).output(2).output(2);
  const RunResult got = run_reference(c);
  EXPECT_EQ(got.out[0], (std::vector<float>{1, 2, 1, 3}));
  EXPECT_EQ(got.out[1], (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}));
}

TEST_F(ReferenceRows, ExpertFfnFoldsTheChosenExperts) {
  tenon_expert_ffn_attr attr = {};
  attr.struct_size = sizeof attr, attr.activation = TENON_ACT_NONE, attr.top_k = 2;
  OpCase c(TENON_OP_EXPERT_FFN, attr, Step::plain(1));
  c.input(1, 1, {3}).ids(1, 2, {2, 0}).input(1, 2, {0.5f, 2}).output(1);
  for (int i = 0; i < 3; ++i) {  // expert e: gate e + 1, up 1, down 10
    Weight w = Weight::encoded("f32", 3, 1,
                               i == 0 ? std::vector<float>{1, 2, 3} : std::vector<float>(3, i == 1 ? 1.0f : 10.0f));
    w.rows = 1, w.n_expert = 3, w.expert_stride = 4;
    c.weight(w);
  }
  EXPECT_EQ(run_reference(c).out[0][0], 0.5f * 9 * 3 * 10 + 2 * 3 * 3 * 10);
  OpCase fold(TENON_OP_FOLD_SLOTS, Step::plain(1));
  fold.input(1, 4, {1, 2, 3, 4}).input(1, 2, {10, 100}).output(2);
  EXPECT_EQ(run_reference(fold).out[0], (std::vector<float>{310, 420}));
}

}  // namespace
}  // namespace tenon::testing
