// attention_cases.hpp: what tests of attention over pages and over latent rows share.
#pragma once

#include <vector>

#include "cpu_kernels.hpp"

namespace tenon::testing {

// Queries of (sequence, position), the same whatever step they come in.
inline std::vector<float> queries(const Step& step, int64_t cols) {
  std::vector<float> out;
  for (uint32_t r = 0; r < step.rows(); ++r) {
    const auto q = Random(uint64_t(step.seq[r]) * 777777 + uint64_t(step.index[r])).normals(size_t(cols), 2);
    out.insert(out.end(), q.begin(), q.end());
  }
  return out;
}

// Tokens that the sequences hold behind their rows.
inline std::vector<int32_t> lengths_of(const std::vector<SeqRows>& sequences) {
  std::vector<int32_t> out;
  for (const SeqRows& q : sequences) out.push_back(q.past + q.rows);
  return out;
}

// Every variant of the op's kernel agrees with the reference, and with itself for every number of workers.
inline void expect_like_reference(const char* op, const OpCase& c, uint32_t phase) {
  for (const tenon_kernel* kernel : variants(op)) {
    const RunResult one = run_op(*kernel, c);
    ASSERT_TRUE(one.accepted) << one.why_not;
    const Difference d = compare(one.out[0], run_reference(c, one).out[0]);
    EXPECT_TRUE(d.comparable && d.relative_rms < 1e-6) << name_of(*kernel) << ", phase " << phase << ": " << d.text();
    for (const uint32_t workers : {2u, 3u, 7u}) {
      const RunResult many = run_op(*kernel, c, {.workers = workers});
      EXPECT_TRUE(equal_bits(many.out[0], one.out[0])) << name_of(*kernel) << ", workers " << workers;
    }
  }
}

// Every query of a sequence, through steps of the given sizes; `op` makes the case of a step.
template <typename Op>
std::vector<float> in_steps(const tenon_kernel& kernel, int32_t past, const std::vector<int32_t>& sizes, uint32_t workers,
                            Op&& op) {
  std::vector<float> out;
  for (const int32_t n : sizes) {
    const RunResult got = run_op(kernel, op(Step({{past, n}})), {.workers = workers});
    out.insert(out.end(), got.out[0].begin(), got.out[0].end());
    past += n;
  }
  return out;
}

}  // namespace tenon::testing
