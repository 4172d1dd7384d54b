// linear for every dtype that device code decodes.
#include <cmath>
#include <limits>

#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

OpCase product(const Checks& checks, uint32_t rows, int64_t k, const std::vector<Weight>& weights, bool strided = false) {
  OpCase c(TENON_OP_LINEAR, tenon_linear_attr{sizeof(tenon_linear_attr), 0}, Step::plain(rows));
  if (!(checks.kernel().phases & TENON_PHASE_DECODE)) c.phases = TENON_PHASE_PREFILL;
  auto x = Random(uint64_t(k)).normals(size_t(rows * k));
  if (strided) {
    c.strided(rows, k, x, 2, 3, 5);
  } else {
    c.input(rows, k, x);
  }
  for (const Weight& w : weights) c.weight(w).output(w.rows);
  return c;
}

void check_dtype(Checks& checks, const std::string& dtype, const std::vector<int64_t>& widths) {
  for (const int64_t k : widths) {
    const Weight w = random_weight(dtype, checks.is_small() ? 13 : 70, k, uint64_t(k) + 1);
    const std::string what = dtype + ", K " + std::to_string(k);
    for (const uint32_t rows : {1u, 5u, 19u, 130u})
      if (rows < 100 || !checks.is_small())
        checks.against_reference(product(checks, rows, k, {w}), what + ", " + std::to_string(rows) + " rows");
    if (k == (checks.is_small() ? widths.front() : widths.back()))
      checks.row_exact(product(checks, checks.is_small() ? 8 : 64, k, {w}), what);
    if (checks.is_small()) return;
  }
}

// Rows of a prompt in wide tiles: each has the bits that it has in narrow ones, and one that is not finite spoils no other.
void check_widths(Checks& checks, const std::string& dtype) {
  checks.guarded(dtype + ", wide tiles", [&] {
    constexpr uint32_t rows = 140, kOutputs = 200;
    OpCase whole = product(checks, rows, 512, {random_weight(dtype, kOutputs, 512, 5)});
    const RunResult before = run_on_device(checks.device(), checks.kernel(), whole);
    if (!before.accepted) return checks.expect(false, dtype + ": refused: " + before.why_not);
    whole.in[0].data[7 * 512 + 3] = std::numeric_limits<float>::quiet_NaN();
    const RunResult all = run_on_device(checks.device(), checks.kernel(), whole);
    for (uint32_t r = 0; r < rows; ++r)
      if (r != 7)
        checks.expect(equal_bits({before.out[0].data() + r * kOutputs, kOutputs}, {all.out[0].data() + r * kOutputs, kOutputs}),
                      dtype + ": row " + std::to_string(r) + " depends on one that is not finite");
    for (uint32_t c = 0; c < kOutputs; ++c) checks.expect(std::isnan(all.out[0][7 * kOutputs + c]), dtype + ": a NaN is lost");
    const std::vector<uint32_t> few = {139, 0, 8, 63, 64, 100};
    const RunResult some = run_on_device(checks.device(), checks.kernel(), take_rows(whole, few));
    for (size_t i = 0; i < few.size(); ++i)
      checks.expect(equal_bits({some.out[0].data() + i * kOutputs, kOutputs}, {all.out[0].data() + few[i] * kOutputs, kOutputs}),
                    dtype + ": row " + std::to_string(few[i]) + " has other bits in narrow tiles");
  });
}

}  // namespace

void check_linear(const Device& device, bool is_small, std::vector<Line>& lines) {
  for (const char* kernel : {"cuda.linear", "cuda.linear.tile"}) {
    Checks checks(device, kernel, 1e-6, is_small);
    for (const std::string& dtype : float_dtypes()) check_dtype(checks, dtype, {7, 100, 256, 1030});
    for (const std::string& dtype : block_dtypes_32()) check_dtype(checks, dtype, {32, 160, 2080});
    for (const std::string& dtype : block_dtypes_256()) check_dtype(checks, dtype, {256, 768, 2304});
    for (const std::string& dtype : other_dtypes()) {
      const int64_t block = Kit::instance().dtype(dtype).block_cols;
      check_dtype(checks, dtype,
                  block == 1    ? std::vector<int64_t>{130, 384, 1031}
                  : block < 256 ? std::vector<int64_t>{192, 64, 2048}
                                : std::vector<int64_t>{256, 768, 2304});
    }
    // Several weights of one input, and an input that is a view without vectors.
    checks.against_reference(product(checks, 6, 512,
                                     {random_weight("q4_k", 33, 512, 1), random_weight("q8_0", 9, 512, 2),
                                      random_weight("bf16", 1, 512, 3), random_weight("q6_k", 64, 512, 4)}),
                             "four weights");
    checks.against_reference(product(checks, 6, 512,
                                     {random_weight("mxfp4", 33, 512, 1), random_weight("fp8_b128", 200, 512, 2),
                                      random_weight("iq2_s", 5, 512, 3)}),
                             "three weights");
    checks.against_reference(product(checks, 6, 300, {random_weight("f16", 33, 300, 1)}, true), "a view");
    lines.push_back(checks.line());
  }
  {
    Checks checks(device, "cuda.linear.fp8", 1e-6, is_small);
    for (const std::string& dtype : other_dtypes())
      if (dtype.starts_with("fp8")) check_dtype(checks, dtype, {144, 512, 2320, 16});
    checks.against_reference(product(checks, 6, 512,
                                     {random_weight("fp8_b128", 133, 512, 1), random_weight("bf16", 9, 512, 2),
                                      random_weight("fp8_row", 1, 512, 3), random_weight("q4_k", 64, 512, 4)}),
                             "four weights");
    checks.against_reference(product(checks, 6, 304, {random_weight("fp8_tensor", 33, 304, 1)}, true), "a view");
    checks.refused(product(checks, 2, 104, {random_weight("fp8_row", 8, 104, 1)}), "rows of 104");
    checks.refused(product(checks, 2, 96, {random_weight("bf16", 8, 96, 1)}), "bf16 alone");
    lines.push_back(checks.line());
  }
  // Rows as bf16, weights rounded to it; the reference does the same. Tensor cores drop bits below the largest product's.
  {
    Checks checks(device, "cuda.linear.bf16", 1e-5, is_small);
    for (const char* dtype : {"f16", "bf16"}) check_dtype(checks, dtype, {1030, 7, 100, 256, 2048});
    for (const std::string& dtype : block_dtypes_32()) check_dtype(checks, dtype, {352, 32, 160, 2080});
    for (const std::string& dtype : block_dtypes_256()) check_dtype(checks, dtype, {768, 256, 2304});
    for (const std::string& dtype : other_dtypes()) check_dtype(checks, dtype, {256, 768, 2304});
    for (const char* dtype : {"q4_k", "q6_k", "q8_0", "bf16", "mxfp4"}) check_widths(checks, dtype);
    checks.against_reference(product(checks, 20, 512,
                                     {random_weight("q4_k", 33, 512, 1), random_weight("q6_k", 9, 512, 2),
                                      random_weight("q4_k", 150, 512, 3), random_weight("bf16", 64, 512, 4)}),
                             "four weights");
    checks.against_reference(product(checks, 20, 512, {random_weight("q8_0", 33, 512, 1)}, true), "a view");
    checks.refused(product(checks, 20, 256, {random_weight("f32", 8, 256, 1)}), "f32");
    lines.push_back(checks.line());
  }
  // Rows as q8_32; the reference reads the same codes, so what is left is rounding in f32.
  Checks checks(device, "cuda.linear.q8", 1e-6, is_small);
  for (const std::string& dtype : block_dtypes_32()) check_dtype(checks, dtype, {32, 160, 2080, 4448});
  for (const std::string& dtype : block_dtypes_256()) check_dtype(checks, dtype, {256, 768, 2304, 4608});
  checks.against_reference(product(checks, 6, 512,
                                   {random_weight("q4_k", 33, 512, 1), random_weight("q6_k", 9, 512, 2),
                                    random_weight("q4_k", 1, 512, 3), random_weight("q8_0", 64, 512, 4)}),
                           "four weights");
  lines.push_back(checks.line());
}

}  // namespace tenon::gpu_test
