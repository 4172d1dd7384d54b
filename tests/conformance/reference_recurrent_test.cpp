// The reference's short convolution and gated delta rule against their formulas, and the transactions on their stores.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance.hpp"
#include "kit/transactions.hpp"

namespace tenon::testing {
namespace {

class ReferenceRecurrent : public ::testing::Test {
 protected:
  void SetUp() override { load_reference(); }
  const tenon_kernel& conv() { return Kit::instance().kernel("reference.short_conv"); }
  const tenon_kernel& delta() { return Kit::instance().kernel("reference.gated_delta_rule"); }
};

TEST_F(ReferenceRecurrent, ConvByHand) {
  OpCase c(TENON_OP_SHORT_CONV, tenon_short_conv_attr{sizeof(tenon_short_conv_attr), 3, TENON_ACT_NONE, 0},
           Step::plain(3));
  c.input(3, 2, {1, 10, 2, 20, 3, 30}).weight("f32", 2, 3, {100, 10, 1, 0, 0, 2}).output(2);
  Store store = Store::conv(2, 3, 1);
  float* base = store.state(0, 0);
  base[0] = 5, base[1] = 0, base[2] = 6, base[3] = 0;  // rows (5, 0), (6, 0)
  c.store(store);
  RunResult got = run_reference(c);
  EXPECT_EQ(got.out[0], (std::vector<float>{561, 20, 612, 40, 123, 60}));
  const float* next = got.stores[0].state(0, 1);
  EXPECT_EQ(std::vector<float>(next, next + 4), (std::vector<float>{2, 20, 3, 30}));
}

TEST_F(ReferenceRecurrent, ConvIsTheSameHoweverTheRowsAreGrouped) {
  for (const uint32_t taps : {2u, 4u}) {
    const StateOp op = conv_op(6, taps);
    for (size_t group = 1; group <= 5; ++group) {
      Random random(9);
      std::vector<Token> tokens;
      for (int t = 0; t < 20; ++t) tokens.push_back(random_token(op, random));
      Player player(op, conv(), 1);
      std::vector<float> outputs;
      for (size_t t = 0; t < tokens.size(); t += group) {
        const std::vector<Token> part(tokens.begin() + int64_t(t),
                                      tokens.begin() + int64_t(std::min(t + group, tokens.size())));
        const auto out = player.step({SeqRows{int32_t(t)}}, {part});
        outputs.insert(outputs.end(), out[0].begin(), out[0].end());
      }
      const auto w = op.base(Step::plain(1)).weights[0].decoded();
      std::vector<float> want;
      for (size_t t = 0; t < tokens.size(); ++t)
        for (size_t c = 0; c < 6; ++c) {
          double sum = 0;
          for (size_t j = 0; j < taps; ++j)
            if (t + j + 1 >= taps) sum += double(w[c * taps + j]) * tokens[t + j + 1 - taps][0][c];
          want.push_back(float(sum / (1 + std::exp(-sum))));
        }
      EXPECT_TRUE(equal_bits(outputs, want)) << taps << " taps, groups of " << group;
    }
  }
}

// The recurrence in f64 throughout.
std::vector<float> direct_delta(const StateOp& op, const std::vector<Token>& tokens) {
  const OpCase c = op.base(Step::plain(1));
  tenon_gated_delta_rule_attr attr;
  std::memcpy(&attr, c.attr.data(), sizeof attr);
  const auto rate = c.weights[0].decoded(), bias = c.weights[1].decoded();
  const size_t nk = attr.key_heads, nv = attr.value_heads, dk = attr.key_dim, dv = attr.value_dim;
  std::vector<double> state(nv * dk * dv);
  std::vector<float> out;
  for (const Token& t : tokens)
    for (size_t h = 0; h < nv; ++h) {
      const size_t kh = attr.head_map == TENON_HEAD_MAP_MOD ? h % nk : h / (nv / nk);
      const float *q = t[0].data() + kh * dk, *k = t[1].data() + kh * dk, *v = t[2].data() + h * dv;
      double* s = state.data() + h * dk * dv;
      const double beta = 1 / (1 + std::exp(-double(t[3][h])));
      const double decay = std::exp(rate[h] * std::log1p(std::exp(double(t[4][h]) + bias[h])));
      for (size_t i = 0; i < dk * dv; ++i) s[i] *= decay;
      for (size_t j = 0; j < dv; ++j) {
        double recalled = 0, o = 0;
        for (size_t i = 0; i < dk; ++i) recalled += s[i * dv + j] * k[i];
        const double d = beta * (v[j] - recalled);
        for (size_t i = 0; i < dk; ++i) s[i * dv + j] += k[i] * d;
        for (size_t i = 0; i < dk; ++i) o += s[i * dv + j] * q[i] * attr.scale;
        out.push_back(float(o));
      }
    }
  return out;
}

TEST_F(ReferenceRecurrent, DeltaRuleFollowsTheRecurrence) {
  for (const uint32_t map : {TENON_HEAD_MAP_DIV, TENON_HEAD_MAP_MOD}) {
    const StateOp op = delta_op(2, 4, 16, 8, map);
    Random random(10);
    std::vector<Token> tokens;
    for (int t = 0; t < 60; ++t) tokens.push_back(random_token(op, random));
    Player player(op, delta(), 1);
    const auto got = player.step({SeqRows{0}}, {tokens}, TENON_PHASE_PREFILL);
    EXPECT_LT(compare(got[0], direct_delta(op, tokens)).relative_rms, 2e-7) << "head map " << map;
  }
}

TEST_F(ReferenceRecurrent, SoftplusIsItsArgumentAboveTwenty) {
  StateOp op = delta_op(1, 1, 2, 2, TENON_HEAD_MAP_DIV);
  Store store = op.store(1);
  std::fill(store.state(0), store.state(0) + 4, 1.0f);
  OpCase c = op.base(Step::plain(1));
  c.weights.clear();
  c.weight("f32", 1, 1, {-0.01f}).weight("f32", 1, 1, {0});
  c.input(1, 2, {1, 0}).input(1, 2, {0, 0}).input(1, 2, {0, 0}).input(1, 1, {0}).input(1, 1, {300}).store(store);
  RunResult got = run_reference(c);
  const float decay = float(std::exp(-0.01f * 300.0));
  EXPECT_EQ(got.stores[0].state(0)[0], decay);
  EXPECT_EQ(got.out[0][0], float(double(decay) * (1.0f / std::sqrt(2.0f))));
}

TEST_F(ReferenceRecurrent, TransactionsEqualAPlainReplay) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    EXPECT_EQ(play_transactions(conv_op(6, 4), conv(), conv(), seed, 40), "");
    EXPECT_EQ(play_transactions(delta_op(2, 4, 8, 4, TENON_HEAD_MAP_MOD), delta(), delta(), seed, 40), "");
  }
}

TEST_F(ReferenceRecurrent, ATapedStepLeavesTheBaseAndPaddingWritesNothing) {
  for (const bool is_conv : {true, false}) {
    const StateOp op = is_conv ? conv_op(6, 4) : delta_op(1, 2, 8, 4, TENON_HEAD_MAP_DIV);
    Player player(op, is_conv ? conv() : delta(), 1);
    Random random(12);
    player.step({SeqRows{0}}, {{random_token(op, random), random_token(op, random)}});
    const Store before = player.store();
    SeqRows taped{2};
    taped.tape = 1;
    player.step({taped}, {{random_token(op, random)}});
    EXPECT_EQ(player.store().base, before.base);
    const auto changed = [&] {
      size_t n = 0;
      for (size_t i = 0; i < before.aux.size(); ++i) n += before.aux[i] != player.store().aux[i];
      return n;
    }();
    EXPECT_GT(changed, 0u);
    EXPECT_LE(changed, size_t(before.type.tape_cols) * 4);
  }
}

TEST_F(ReferenceRecurrent, ATapeRowThatWouldNotFitIsRefused) {
  const StateOp op = conv_op(2, 4);
  Player player(op, conv(), 1);
  Random random(13);
  SeqRows late{0};
  late.tape = 0, late.tape_start = 15;
  EXPECT_THROW(player.step({late}, {{random_token(op, random)}}), std::runtime_error);
}

}  // namespace
}  // namespace tenon::testing
