// kv_write and attention: stores of every dtype, windows, grouped heads, many sequences; chunks, company and workers
// change nothing; what a row does not see cannot reach it.
#include <cmath>
#include <limits>

#include "attention_cases.hpp"

namespace tenon::testing {
namespace {

struct Shape {
  uint32_t heads = 4, kv_heads = 1, dim = 64, dim_v = 64;
  int32_t window = 0;
  float softcap = 0;
  std::string dtype_k = "f16", dtype_v = "f16";
  bool span_mask = false;
};

tenon_attention_attr attr_of(const Shape& s) {
  tenon_attention_attr attr = {};
  attr.struct_size = sizeof attr, attr.heads = s.heads, attr.kv_heads = s.kv_heads;
  attr.head_dim = s.dim, attr.head_dim_v = s.dim_v, attr.window = s.window;
  attr.scale = 1 / std::sqrt(float(s.dim)), attr.softcap = s.softcap, attr.span_mask = s.span_mask;
  return attr;
}

// A store in which sequence q holds positions 0 … lengths[q] - 1; everything else is NaN.
Store filled(const Shape& s, const std::vector<int32_t>& lengths) {
  int32_t longest = 1;
  for (const int32_t n : lengths) longest = std::max(longest, n);
  Store store =
      Store::paged(s.kv_heads, s.dim, s.dim_v, s.dtype_k, s.dtype_v, uint32_t(lengths.size()), longest, s.window);
  for (uint32_t q = 0; q < lengths.size(); ++q)
    for (int32_t p = 0; p < lengths[q]; ++p) {
      Random random(uint64_t(q) * 100000 + uint64_t(p) + 1);
      const auto k = random.normals(s.kv_heads * s.dim), v = random.normals(s.kv_heads * s.dim_v);
      store.put(q, p, k.data(), v.data());
    }
  return store;
}

OpCase attention(const Shape& s, const Step& step, const Store& store, uint32_t phase) {
  OpCase c(TENON_OP_ATTENTION, attr_of(s), step);
  const int64_t cols = int64_t(s.heads) * s.dim;
  c.strided(step.rows(), cols, queries(step, int64_t(s.heads) * s.dim), s.heads, 16, 32).store(store).output(int64_t(s.heads) * s.dim_v);
  c.phase(phase);
  return c;
}

void expect_like_reference(const Shape& s, const std::vector<SeqRows>& sequences, uint32_t phase) {
  testing::expect_like_reference("attention", attention(s, Step(sequences), filled(s, lengths_of(sequences)), phase), phase);
}

TEST(CpuAttention, AgreesWithTheReferenceForManyShapes) {
  const Shape shapes[] = {
      {},
      {.heads = 4, .kv_heads = 4, .dim = 80, .dim_v = 48},
      {.heads = 6, .kv_heads = 2, .dim = 96, .dim_v = 96, .window = 70},
      {.heads = 5, .kv_heads = 1, .dim = 256, .dim_v = 256, .window = 512},
      {.heads = 8, .kv_heads = 1, .dim = 128, .dim_v = 128, .softcap = 5, .dtype_k = "bf16", .dtype_v = "f32"},
      {.heads = 2, .kv_heads = 1, .dim = 512, .dim_v = 512, .dtype_k = "f32", .dtype_v = "bf16"},
      {.heads = 2, .kv_heads = 2, .dim = 192, .dim_v = 128, .window = 1},
      {.heads = 2, .kv_heads = 1, .dtype_k = "f64", .dtype_v = "f64"},  // through the dtype's record
  };
  for (const Shape& s : shapes) {
    SCOPED_TRACE("heads " + std::to_string(s.heads) + ", dim " + std::to_string(s.dim));
    expect_like_reference(s, {{0, 1}, {63, 1}, {64, 5}, {200, 15}, {600, 2}}, TENON_PHASE_DECODE);
    expect_like_reference(s, {{0, 70}, {64, 16}, {300, 33}}, TENON_PHASE_PREFILL);
  }
}

std::vector<float> in_steps(const tenon_kernel& kernel, const Shape& s, const Store& store, int32_t past,
                            const std::vector<int32_t>& sizes, uint32_t phase, uint32_t workers) {
  return testing::in_steps(kernel, past, sizes, workers,
                           [&](const Step& step) { return attention(s, step, store, phase); });
}

TEST(CpuAttention, PrefillGivesTheSameBitsForEveryChunking) {
  for (const Shape& s : {Shape{.dim = 128, .dim_v = 128}, Shape{.heads = 3, .kv_heads = 3, .window = 100}}) {
    const Store store = filled(s, {320});
    for (const tenon_kernel* kernel : variants("attention")) {
      const auto whole = in_steps(*kernel, s, store, 0, {320}, TENON_PHASE_PREFILL, 1);
      for (const std::vector<int32_t>& sizes :
           {std::vector<int32_t>{64, 64, 64, 64, 64}, {128, 192}, {256, 64}, {304, 16}}) {
        EXPECT_TRUE(equal_bits(in_steps(*kernel, s, store, 0, sizes, TENON_PHASE_PREFILL, 2), whole))
            << name_of(*kernel);
      }
    }
  }
}

TEST(CpuAttention, DecodeGivesTheSameBitsForEveryGrouping) {
  for (const Shape& s : {Shape{.dim = 128, .dim_v = 128}, Shape{.heads = 3, .kv_heads = 3, .window = 50}}) {
    const Store store = filled(s, {130});
    for (const tenon_kernel* kernel : variants("attention")) {
      const auto single = in_steps(*kernel, s, store, 100, std::vector<int32_t>(30, 1), TENON_PHASE_DECODE, 1);
      for (const int32_t width : {2, 3, 5, 6, 10, 15}) {
        const std::vector<int32_t> sizes(size_t(30 / width), width);
        EXPECT_TRUE(equal_bits(in_steps(*kernel, s, store, 100, sizes, TENON_PHASE_DECODE, 2), single))
            << name_of(*kernel) << ", width " << width;
      }
    }
  }
}

TEST(CpuAttention, CompanyChangesNothing) {
  const Shape s{.window = 90};
  for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
    const int32_t rows = phase == TENON_PHASE_DECODE ? 5 : 40;
    const Store store = filled(s, {100 + rows, 17 + rows, 250});
    for (const tenon_kernel* kernel : variants("attention")) {
      const RunResult alone = run_op(*kernel, attention(s, Step({{100, rows}}), store, phase));
      const RunResult company = run_op(*kernel, attention(s, Step({{100, rows}, {17, rows}, {235, 15}}), store, phase));
      EXPECT_TRUE(equal_bits(alone.out[0], {company.out[0].data(), alone.out[0].size()})) << name_of(*kernel);
    }
  }
}

// A later row's K and V are NaN: earlier rows of the same step and of other sequences keep their bits.
TEST(CpuAttention, ARowThatIsNotFiniteReachesNoRowThatDoesNotSeeIt) {
  const Shape s{.heads = 2, .kv_heads = 1};
  for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
    const int32_t rows = phase == TENON_PHASE_DECODE ? 8 : 48, bad = 20 + rows / 2;
    const Store store = filled(s, {20 + rows, 90});
    Store poisoned = store;
    const std::vector<float> nan(s.dim, std::numeric_limits<float>::quiet_NaN());
    poisoned.put(0, bad, nan.data(), nan.data());
    for (const tenon_kernel* kernel : variants("attention")) {
      const Step step({{20, rows}, {75, 15}});
      const RunResult clean = run_op(*kernel, attention(s, step, store, phase));
      const RunResult got = run_op(*kernel, attention(s, step, poisoned, phase));
      const size_t cols = s.heads * s.dim_v;
      for (uint32_t r = 0; r < step.rows(); ++r) {
        const std::span<const float> a(clean.out[0].data() + r * cols, cols), b(got.out[0].data() + r * cols, cols);
        const bool sees = step.seq[r] == 0 && step.index[r] >= bad;
        if (sees) {
          EXPECT_TRUE(std::isnan(b[0])) << name_of(*kernel) << ", row " << r;
        } else {
          EXPECT_TRUE(equal_bits(a, b)) << name_of(*kernel) << ", row " << r;
        }
      }
    }
  }
}

TEST(CpuAttention, PagesBeforeTheWindowMayBeGone) {
  const Shape s{.window = 64};
  for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
    const int32_t rows = phase == TENON_PHASE_DECODE ? 4 : 64;
    const Store store = filled(s, {256 + rows});
    Store given = store;
    for (uint32_t page = 0; page < 3; ++page) given.give_back(0, page);
    for (const tenon_kernel* kernel : variants("attention")) {
      const RunResult want = run_op(*kernel, attention(s, Step({{256, rows}}), store, phase));
      const RunResult got = run_op(*kernel, attention(s, Step({{256, rows}}), given, phase));
      EXPECT_TRUE(equal_bits(got.out[0], want.out[0])) << name_of(*kernel);
      given.give_back(0, 3);
      EXPECT_THROW(run_op(*kernel, attention(s, Step({{256, rows}}), given, phase)), std::runtime_error);
      given = store;
      for (uint32_t page = 0; page < 3; ++page) given.give_back(0, page);
    }
  }
}

TEST(CpuAttention, RefusesWithReasons) {
  load_plugins();
  const tenon_kernel& kernel = Kit::instance().kernel("cpu.attention.portable");
  const Shape odd{.dim = 40, .dim_v = 40};
  EXPECT_FALSE(offer_of(kernel, attention(odd, Step({{0, 1}}), filled(odd, {1}), TENON_PHASE_DECODE)).accepted);
}

struct SpanRows {
  uint32_t first, last;  // rows of the step
};

Step with_spans(Step step, const std::vector<SpanRows>& spans) {
  for (size_t i = 0; i < spans.size(); ++i)
    for (uint32_t r = spans[i].first; r <= spans[i].last; ++r)
      step.span[r] = int32_t(i % 2);  // another sequence has the same ids
  return step;
}

// Spans at the step's ends, across pages and units of work, longer than the window, side by side.
TEST(CpuAttention, SpansSeeThemselvesBothWays) {
  for (const Shape& s :
       {Shape{.span_mask = true},
        Shape{.heads = 6, .kv_heads = 2, .dim = 96, .dim_v = 96, .window = 20, .span_mask = true},
        Shape{.heads = 2, .kv_heads = 2, .softcap = 5, .dtype_k = "f32", .dtype_v = "f32", .span_mask = true}}) {
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
      const bool is_decode = phase == TENON_PHASE_DECODE;
      const Step plain = is_decode ? Step({{60, 15}, {0, 6}, {100, 1}}) : Step({{0, 180}, {75, 40}});
      const Step step = is_decode ? with_spans(plain, {{0, 7}, {8, 14}, {15, 17}, {21, 21}})
                                  : with_spans(plain, {{3, 90}, {91, 130}, {180, 183}, {200, 219}});
      std::vector<int32_t> lengths;
      for (uint32_t q = 0; q < step.n_seqs; ++q) lengths.push_back(step.seq_end[q]);
      const Store store = filled(s, lengths);
      const OpCase c = attention(s, step, store, phase);
      Shape causal = s;
      causal.span_mask = false;
      for (const tenon_kernel* kernel : variants("attention")) {
        const RunResult one = run_op(*kernel, c);
        ASSERT_TRUE(one.accepted) << one.why_not;
        const Difference d = compare(one.out[0], run_reference(c, one).out[0]);
        EXPECT_TRUE(d.comparable && d.relative_rms < 1e-6)
            << name_of(*kernel) << ", phase " << phase << ": " << d.text();
        for (const uint32_t workers : {2u, 7u})
          EXPECT_TRUE(equal_bits(run_op(*kernel, c, {.workers = workers}).out[0], one.out[0])) << name_of(*kernel);
        // A mask without spans is none, and an attention without a mask does not ask for them.
        const RunResult none = run_op(*kernel, attention(causal, plain, store, phase));
        EXPECT_TRUE(equal_bits(run_op(*kernel, attention(s, plain, store, phase)).out[0], none.out[0]));
        EXPECT_TRUE(equal_bits(run_op(*kernel, attention(causal, step, store, phase)).out[0], none.out[0]));
        const size_t cols = s.heads * s.dim_v;
        for (uint32_t r = 0; r < step.rows(); ++r) {
          // The last row of a span sees no more than without, unless the window hides the first.
          const bool is_last =
              r + 1 == step.rows() || step.span[r + 1] != step.span[r] || step.seq[r + 1] != step.seq[r];
          if (step.span[r] >= 0 && !(is_last && (!s.window || is_decode))) continue;
          EXPECT_TRUE(equal_bits({one.out[0].data() + r * cols, cols}, {none.out[0].data() + r * cols, cols})) << r;
        }
      }
    }
  }
}

TEST(CpuAttention, StepsThatKeepSpansWholeGiveTheSameBits) {
  const Shape s{.heads = 3, .kv_heads = 3, .window = 40, .span_mask = true};
  const Store store = filled(s, {240});
  for (const tenon_kernel* kernel : variants("attention")) {
    const auto rows = [&](const std::vector<int32_t>& sizes) {
      std::vector<float> out;
      int32_t past = 0;
      for (const int32_t n : sizes) {
        Step step({{past, n}});
        for (int32_t r = 0; r < n; ++r)
          if (past + r >= 30 && past + r < 130) step.span[size_t(r)] = past + r < 100 ? 5 : 6;
        const RunResult got = run_op(*kernel, attention(s, step, store, TENON_PHASE_PREFILL), {.workers = 2});
        out.insert(out.end(), got.out[0].begin(), got.out[0].end());
        past += n;
      }
      return out;
    };
    const auto whole = rows({240});
    for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{30, 70, 30, 110}, {100, 140}, {192, 48}})
      EXPECT_TRUE(equal_bits(rows(sizes), whole)) << name_of(*kernel);
  }
}

TEST(CpuKvWrite, WritesWhatTheReferenceWrites) {
  const auto kernels = variants("kv_write");  // loads the plugins, the reference among them
  for (const char* dtype : {"f32", "f16", "bf16", "f64"}) {
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
      const Step step({{62, 5}, {0, 1}, {130, 15}});
      const tenon_kv_write_attr attr = {sizeof attr, 3, 40, 24};
      OpCase c(TENON_OP_KV_WRITE, attr, step);
      c.strided(step.rows(), 120, rows_of(step.rows(), 120, 1), 3, 8, 40)
          .input(step.rows(), 72, rows_of(step.rows(), 72, 2));
      c.store(Store::paged(3, 40, 24, dtype, dtype, 3, 145)).phase(phase);
      const RunResult want = run_reference(c);
      for (const tenon_kernel* kernel : kernels) {
        for (const uint32_t workers : {1u, 2u, 7u}) {
          const RunResult got = run_op(*kernel, c, {.workers = workers});
          ASSERT_TRUE(got.accepted) << got.why_not;
          EXPECT_EQ(got.stores[0].base, want.stores[0].base) << name_of(*kernel) << ", workers " << workers;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon::testing
