// latent_attention, and kv_write into a latent store: every dtype of rows; chunks, company and workers change nothing;
// what a row does not see cannot reach it.
#include <cmath>
#include <limits>

#include "attention_cases.hpp"

namespace tenon::testing {
namespace {

struct Shape {
  uint32_t heads = 4, rank = 64, rope_dim = 32;
  std::string dtype = "f16";
  uint32_t cols() const { return rank + rope_dim; }
};

std::vector<float> cached_row(const Shape& s, uint32_t seq, int64_t position) {
  return Random(uint64_t(seq) * 100000 + uint64_t(position) + 1).normals(s.cols());
}

// Sequence q holds positions 0 … lengths[q] - 1; everything else is NaN.
Store filled(const Shape& s, const std::vector<int32_t>& lengths) {
  int32_t longest = 1;
  for (const int32_t n : lengths) longest = std::max(longest, n);
  Store store = Store::latent(s.cols(), s.dtype, uint32_t(lengths.size()), longest);
  for (uint32_t q = 0; q < lengths.size(); ++q)
    for (int32_t p = 0; p < lengths[q]; ++p) store.put(q, p, cached_row(s, q, p).data(), nullptr);
  return store;
}

OpCase attention(const Shape& s, const Step& step, const Store& store, uint32_t phase) {
  tenon_latent_attention_attr attr = {};
  attr.struct_size = sizeof attr, attr.heads = s.heads, attr.rank = s.rank, attr.rope_dim = s.rope_dim;
  attr.scale = 1 / std::sqrt(float(s.cols()));
  OpCase c(TENON_OP_LATENT_ATTENTION, attr, step);
  c.strided(step.rows(), int64_t(s.heads) * s.cols(), queries(step, int64_t(s.heads) * s.cols()), s.heads, 16, 32).store(store);
  return c.output(int64_t(s.heads) * s.rank).phase(phase);
}

void expect_like_reference(const Shape& s, const std::vector<SeqRows>& sequences, uint32_t phase) {
  testing::expect_like_reference("latent_attention", attention(s, Step(sequences), filled(s, lengths_of(sequences)), phase), phase);
}

TEST(CpuLatentAttention, AgreesWithTheReferenceForManyShapes) {
  const Shape shapes[] = {{},
                          {.heads = 1, .rank = 512, .rope_dim = 64},
                          {.heads = 70, .rank = 32, .rope_dim = 16},  // more than one walk over the keys takes
                          {.heads = 3, .rank = 48, .rope_dim = 0, .dtype = "f32"},
                          {.heads = 5, .rank = 80, .rope_dim = 16, .dtype = "bf16"},
                          {.heads = 2, .dtype = "f64"}};  // through the dtype's record
  for (const Shape& s : shapes) {
    SCOPED_TRACE("heads " + std::to_string(s.heads) + ", rank " + std::to_string(s.rank) + ", " + s.dtype);
    expect_like_reference(s, {{0, 1}, {63, 1}, {64, 5}, {200, 15}, {300, 2}}, TENON_PHASE_DECODE);
    expect_like_reference(s, {{0, 70}, {64, 16}, {200, 33}}, TENON_PHASE_PREFILL);
  }
}

std::vector<float> in_steps(const tenon_kernel& kernel, const Shape& s, const Store& store, int32_t past,
                            const std::vector<int32_t>& sizes, uint32_t phase, uint32_t workers) {
  return testing::in_steps(kernel, past, sizes, workers,
                           [&](const Step& step) { return attention(s, step, store, phase); });
}

TEST(CpuLatentAttention, ChunksAndGroupingsGiveTheSameBits) {
  const Shape s;
  const Store store = filled(s, {320});
  for (const tenon_kernel* kernel : variants("latent_attention")) {
    const auto whole = in_steps(*kernel, s, store, 0, {320}, TENON_PHASE_PREFILL, 1);
    for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{64, 64, 64, 64, 64}, {128, 192}, {304, 16}})
      EXPECT_TRUE(equal_bits(in_steps(*kernel, s, store, 0, sizes, TENON_PHASE_PREFILL, 2), whole)) << name_of(*kernel);
    const auto single = in_steps(*kernel, s, store, 100, std::vector<int32_t>(30, 1), TENON_PHASE_DECODE, 1);
    for (const int32_t width : {2, 5, 15}) {
      const std::vector<int32_t> sizes(size_t(30 / width), width);
      EXPECT_TRUE(equal_bits(in_steps(*kernel, s, store, 100, sizes, TENON_PHASE_DECODE, 2), single))
          << name_of(*kernel) << ", width " << width;
    }
  }
}

// A later row is NaN, in its value or in what only keys have: earlier rows and other sequences keep their bits.
TEST(CpuLatentAttention, ARowThatIsNotFiniteReachesNoRowThatDoesNotSeeIt) {
  const Shape s{.heads = 2};
  for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL})
    for (const uint32_t column : {0u, s.rank}) {
      const int32_t rows = phase == TENON_PHASE_DECODE ? 8 : 48, bad = 20 + rows / 2;
      const Store store = filled(s, {20 + rows, 90});
      Store poisoned = store;
      std::vector<float> row = cached_row(s, 0, bad);
      row[column] = std::numeric_limits<float>::quiet_NaN();
      poisoned.put(0, bad, row.data(), nullptr);
      for (const tenon_kernel* kernel : variants("latent_attention")) {
        const Step step({{20, rows}, {75, 15}});
        const RunResult clean = run_op(*kernel, attention(s, step, store, phase));
        const RunResult got = run_op(*kernel, attention(s, step, poisoned, phase));
        const size_t cols = s.heads * s.rank;
        for (uint32_t r = 0; r < step.rows(); ++r) {
          const std::span<const float> a(clean.out[0].data() + r * cols, cols), b(got.out[0].data() + r * cols, cols);
          if (step.seq[r] == 0 && step.index[r] >= bad) {
            EXPECT_TRUE(std::isnan(b[0])) << name_of(*kernel) << ", row " << r;
          } else {
            EXPECT_TRUE(equal_bits(a, b)) << name_of(*kernel) << ", row " << r;
          }
        }
      }
    }
}

TEST(CpuLatentAttention, RefusesWithReasons) {
  load_plugins();
  const tenon_kernel& kernel = Kit::instance().kernel("cpu.latent_attention.portable");
  const Shape odd{.rank = 40, .rope_dim = 24};
  const RunResult refused = offer_of(kernel, attention(odd, Step({{0, 1}}), filled(odd, {1}), TENON_PHASE_DECODE));
  EXPECT_FALSE(refused.accepted);
  EXPECT_NE(refused.why_not.find("a rank of 40 in rows of 64"), std::string::npos) << refused.why_not;
}

TEST(CpuKvWrite, WritesLatentRowsAsTheReferenceDoes) {
  const auto kernels = variants("kv_write");
  for (const char* dtype : {"f32", "f16", "bf16", "f64"})
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
      const Step step({{62, 5}, {0, 1}, {130, 15}});
      const tenon_kv_write_attr attr = {sizeof attr, 1, 40, 0};
      OpCase c(TENON_OP_KV_WRITE, attr, step);
      c.strided(step.rows(), 40, rows_of(step.rows(), 40, 1), 1, 8, 0).store(Store::latent(40, dtype, 3, 145)).phase(phase);
      const RunResult want = run_reference(c);
      for (const tenon_kernel* kernel : kernels)
        for (const uint32_t workers : {1u, 2u, 7u}) {
          const RunResult got = run_op(*kernel, c, {.workers = workers});
          ASSERT_TRUE(got.accepted) << got.why_not;
          EXPECT_EQ(got.stores[0].base, want.stores[0].base) << name_of(*kernel) << ", workers " << workers;
        }
    }
}

}  // namespace
}  // namespace tenon::testing
