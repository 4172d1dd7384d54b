// The CPU's short convolution and gated delta rule against the reference, on every instruction set of the machine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance.hpp"
#include "kit/transactions.hpp"

namespace tenon::testing {
namespace {

struct Shape {
  uint32_t nk, nv, dk, dv, map;
};

class CpuRecurrent : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { load_reference(), load_cpu(); }
  static const tenon_kernel& kernel(const std::string& name) { return Kit::instance().kernel(name); }
  const tenon_kernel& conv() { return kernel("cpu.short_conv." + GetParam()); }
  const tenon_kernel& sequential() { return kernel("cpu.gdn.sequential." + GetParam()); }
  const tenon_kernel& chunked() { return kernel("cpu.gdn.chunked." + GetParam()); }
  static const std::vector<Shape>& shapes() {
    static const std::vector<Shape> all = {{2, 2, 128, 128, TENON_HEAD_MAP_DIV},
                                           {2, 4, 64, 128, TENON_HEAD_MAP_DIV},
                                           {2, 6, 64, 64, TENON_HEAD_MAP_MOD},
                                           {3, 3, 16, 48, TENON_HEAD_MAP_MOD},
                                           {1, 4, 128, 80, TENON_HEAD_MAP_DIV}};
    return all;
  }
  static StateOp delta(const Shape& s) { return delta_op(s.nk, s.nv, s.dk, s.dv, s.map); }
  static std::vector<Token> tokens(const StateOp& op, size_t n, uint64_t seed) {
    Random random(seed);
    std::vector<Token> out;
    for (size_t i = 0; i < n; ++i) out.push_back(random_token(op, random));
    return out;
  }
  static std::vector<Token> part(const std::vector<Token>& all, size_t begin, size_t end) {
    return {all.begin() + int64_t(begin), all.begin() + int64_t(std::min(end, all.size()))};
  }
};

// Outputs and final state of one sequence, cut at the given borders.
struct Trace {
  std::vector<float> out, state;
};
Trace play(const StateOp& op, const tenon_kernel& kernel, const std::vector<Token>& tokens, std::vector<size_t> borders,
           uint32_t phase, uint32_t workers = 1) {
  Player player(op, kernel, 1, workers);
  Trace trace;
  borders.push_back(tokens.size());
  size_t begin = 0;
  for (const size_t end : borders) {
    const auto out = player.step({SeqRows{int32_t(begin)}},
                                 {{tokens.begin() + int64_t(begin), tokens.begin() + int64_t(end)}}, phase);
    trace.out.insert(trace.out.end(), out[0].begin(), out[0].end());
    begin = end;
  }
  trace.state = player.state(0);
  return trace;
}

TEST_P(CpuRecurrent, ConvAgreesWithTheReferenceForAllWidthsTapsAndWorkers) {
  for (const uint32_t channels : {6u, 16u, 200u, 530u})
    for (const uint32_t taps : {2u, 4u, 5u}) {
      const StateOp op = conv_op(channels, taps);
      const auto rows = tokens(op, 40, channels);
      const Trace want = play(op, kernel("reference.short_conv"), rows, {}, TENON_PHASE_PREFILL);
      Trace one;
      for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
        const Trace got = play(op, conv(), rows, {}, TENON_PHASE_PREFILL, workers);
        EXPECT_LT(compare(got.out, want.out).relative_rms, 5e-7) << channels << " channels, " << taps << " taps";
        EXPECT_TRUE(equal_bits(got.state, want.state));
        if (workers == 1) one = got;
        EXPECT_TRUE(equal_bits(got.out, one.out)) << workers << " workers";
      }
      const Trace cut = play(op, conv(), rows, {1, 3, 6, 10, 15, 30}, TENON_PHASE_DECODE);
      EXPECT_TRUE(equal_bits(cut.out, one.out)) << "in steps of 1 to 15 rows";
    }
}

TEST_P(CpuRecurrent, ConvWithoutActivation) {
  OpCase c(TENON_OP_SHORT_CONV, tenon_short_conv_attr{sizeof(tenon_short_conv_attr), 3, TENON_ACT_NONE, 0},
           Step::plain(9));
  c.input(9, 70, Random(1).normals(9 * 70)).weight("bf16", 70, 3, Random(2).normals(210)).output(70);
  c.store(Store::conv(70, 3, 1));
  EXPECT_LT(compare(run_op(conv(), c).out[0], run_reference(c).out[0]).relative_rms, 2e-7);
}

TEST_P(CpuRecurrent, SequentialDeltaRuleAgreesWithTheReference) {
  for (const Shape& shape : shapes()) {
    const StateOp op = delta(shape);
    const auto rows = tokens(op, 45, 3);
    const std::vector<size_t> borders = {1, 2, 5, 20, 35};
    const Trace want = play(op, kernel("reference.gated_delta_rule"), rows, borders, TENON_PHASE_DECODE);
    Trace one;
    for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
      const Trace got = play(op, sequential(), rows, borders, TENON_PHASE_DECODE, workers);
      EXPECT_LT(compare(got.out, want.out).relative_rms, 2e-6) << shape.nk << ' ' << shape.nv << ' ' << shape.dk;
      EXPECT_LT(compare(got.state, want.state).relative_rms, 2e-6);
      if (workers == 1) one = got;
      EXPECT_TRUE(equal_bits(got.out, one.out) && equal_bits(got.state, one.state)) << workers << " workers";
    }
    std::vector<size_t> each;
    for (size_t i = 1; i < rows.size(); ++i) each.push_back(i);
    const Trace single = play(op, sequential(), rows, each, TENON_PHASE_DECODE);
    EXPECT_TRUE(equal_bits(single.out, one.out) && equal_bits(single.state, one.state)) << "one row a step";
  }
}

TEST_P(CpuRecurrent, ChunkedDeltaRuleAgreesWithTheReference) {
  for (const Shape& shape : shapes()) {
    const StateOp op = delta(shape);
    for (const size_t n : {16u, 64u, 100u, 200u}) {
      const auto rows = tokens(op, n, n);
      const Trace want = play(op, kernel("reference.gated_delta_rule"), rows, {}, TENON_PHASE_PREFILL);
      Trace one;
      for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
        const Trace got = play(op, chunked(), rows, {}, TENON_PHASE_PREFILL, workers);
        EXPECT_LT(compare(got.out, want.out).relative_rms, 5e-6) << shape.nk << ' ' << shape.nv << ' ' << shape.dk;
        EXPECT_LT(compare(got.state, want.state).relative_rms, 5e-6);
        if (workers == 1) one = got;
        EXPECT_TRUE(equal_bits(got.out, one.out) && equal_bits(got.state, one.state)) << workers << " workers";
      }
    }
  }
}

TEST_P(CpuRecurrent, APromptCutOnTheGridGivesEqualBits) {
  for (const Shape& shape : shapes()) {
    const StateOp op = delta(shape);
    const auto rows = tokens(op, 300, 5);
    const Trace whole = play(op, chunked(), rows, {}, TENON_PHASE_PREFILL);
    for (const std::vector<size_t>& borders : std::vector<std::vector<size_t>>{{64, 128, 192, 256}, {128}, {64, 256}}) {
      const Trace cut = play(op, chunked(), rows, borders, TENON_PHASE_PREFILL, 2);
      EXPECT_TRUE(equal_bits(cut.out, whole.out) && equal_bits(cut.state, whole.state)) << "first cut " << borders[0];
    }
  }
}

TEST_P(CpuRecurrent, PromptsInOneStepDoNotMix) {
  const StateOp op = delta(shapes()[2]);
  const auto a = tokens(op, 90, 6), b = tokens(op, 130, 7);
  Player both(op, chunked(), 2);
  const auto together = both.step({SeqRows{0}, SeqRows{0}}, {a, b}, TENON_PHASE_PREFILL);
  EXPECT_TRUE(equal_bits(together[0], play(op, chunked(), a, {}, TENON_PHASE_PREFILL).out));
  EXPECT_TRUE(equal_bits(together[1], play(op, chunked(), b, {}, TENON_PHASE_PREFILL).out));
}

TEST_P(CpuRecurrent, APromptOffTheGridAgreesWithTheReference) {
  const StateOp op = delta(shapes()[1]);
  const auto rows = tokens(op, 120, 8);
  const Trace want = play(op, kernel("reference.gated_delta_rule"), rows, {}, TENON_PHASE_PREFILL);
  const Trace got = play(op, chunked(), rows, {30, 100}, TENON_PHASE_PREFILL);
  EXPECT_LT(compare(got.out, want.out).relative_rms, 5e-6);
}

TEST_P(CpuRecurrent, StrongDecayNeitherOverflowsNorLosesTheRecentRows) {
  StateOp op = delta(shapes()[0]);
  const auto base = op.base;
  op.base = [base](Step step) {
    OpCase c = base(std::move(step));
    c.weights[0] = Weight::encoded("f32", 1, 2, {-30, -0.001f});
    return c;
  };
  const auto rows = tokens(op, 128, 9);
  const Trace want = play(op, kernel("reference.gated_delta_rule"), rows, {}, TENON_PHASE_PREFILL);
  const Trace got = play(op, chunked(), rows, {}, TENON_PHASE_PREFILL);
  const Difference d = compare(got.out, want.out);
  EXPECT_TRUE(d.comparable) << d.text();
  EXPECT_LT(d.relative_rms, 5e-6);
}

TEST_P(CpuRecurrent, TransactionsEqualAPlainReplay) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    for (const uint32_t workers : {1u, 3u}) {
      EXPECT_EQ(play_transactions(conv_op(150, 4), conv(), conv(), seed, 25, workers), "");
      for (const size_t shape : {1u, 2u, 3u})
        EXPECT_EQ(play_transactions(delta(shapes()[shape]), sequential(), sequential(), seed, 25, workers), "");
    }
}

TEST_P(CpuRecurrent, APromptReplaysAcceptedRowsFirst) {
  const StateOp op = delta(shapes()[1]);
  const auto rows = tokens(op, 40, 10);
  for (const bool is_chunked : {false, true}) {
    Player player(op, is_chunked ? chunked() : sequential(), 1);
    SeqRows taped{0};
    taped.tape = 0;
    player.step({taped}, {part(rows, 0, 10)});
    SeqRows prompt{7};
    prompt.accepted = 7, prompt.replay = 0;
    const auto got = player.step({prompt}, {part(rows, 7, 40)}, TENON_PHASE_PREFILL);
    const Trace want = play(op, kernel("reference.gated_delta_rule"), rows, {}, TENON_PHASE_PREFILL);
    EXPECT_LT(compare(got[0], {want.out.data() + 7 * op.out_cols, size_t(33 * op.out_cols)}).relative_rms, 5e-6);
    EXPECT_LT(compare(player.state(0), want.state).relative_rms, 5e-6);
  }
}

TEST_P(CpuRecurrent, ARowThatIsNotANumberStaysInItsSequence) {
  for (const bool is_conv : {true, false}) {
    const StateOp op = is_conv ? conv_op(40, 4) : delta(shapes()[1]);
    const tenon_kernel& prompt = is_conv ? conv() : chunked();
    const tenon_kernel& decode = is_conv ? conv() : sequential();
    auto a = tokens(op, 70, 11), b = tokens(op, 70, 12);
    for (float& x : a[20].back()) x = std::numeric_limits<float>::quiet_NaN();
    Player prompts(op, prompt, 2), steps(op, decode, 2);
    EXPECT_TRUE(equal_bits(prompts.step({SeqRows{0}, SeqRows{0}}, {a, b}, TENON_PHASE_PREFILL)[1],
                           play(op, prompt, b, {}, TENON_PHASE_PREFILL).out));
    EXPECT_TRUE(equal_bits(steps.step({SeqRows{0}, SeqRows{0}}, {part(a, 18, 23), part(b, 0, 5)})[1],
                           play(op, decode, part(b, 0, 5), {}, TENON_PHASE_DECODE).out));
    EXPECT_TRUE(std::isnan(prompts.state(0)[0]) || is_conv);
  }
}

TEST_P(CpuRecurrent, BrokenTransactionsAreRefused) {
  const StateOp op = delta(shapes()[3]);
  Player player(op, sequential(), 1);
  SeqRows late{0};
  late.tape = 0, late.tape_start = 15;
  EXPECT_THROW(player.step({late}, {tokens(op, 1, 1)}), std::runtime_error);
  SeqRows same{0};
  same.accepted = 1, same.replay = 1, same.tape = 1;
  EXPECT_THROW(player.step({same}, {tokens(op, 1, 1)}), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuRecurrent, ::testing::ValuesIn(isas()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tenon::testing
