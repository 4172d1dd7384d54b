// Ops on rows: embed, encode, norm, rope, select_rows, logits_tail.
#include <cmath>
#include <limits>

#include "cpu_kernels.hpp"

namespace tenon::testing {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(CpuNorm, ServesBothKindsOverTheRow) {
  for (const uint32_t kind : {TENON_NORM_RMS, TENON_NORM_L2}) {
    for (const int64_t cols : {640, 77}) {
      for (const char* dtype : {"f32", "f16", "bf16", ""}) {
        check_op("norm",
                 [&](uint32_t rows) {
                   OpCase c(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), kind, 1e-6f, 0}, Step::plain(rows));
                   c.input(rows, cols, rows_of(rows, cols, 1, 3)).output(cols);
                   if (*dtype) c.weight(dtype, 1, cols, Random(5).normals(size_t(cols)));
                   return c;
                 },
                 3e-7, {1, 2, 7, 16, 17});
      }
    }
  }
}

TEST(CpuNorm, ServesHeadsOfAStridedView) {
  check_op(
      "norm",
      [](uint32_t rows) {
        OpCase c(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 1e-6f, 40}, Step::plain(rows));
        c.strided(rows, 200, rows_of(rows, 200, 1), 5, 40, 40).weight("f32", 1, 40, Random(5).normals(40)).output(200);
        return c;
      },
      3e-7);
}

TEST(CpuEncode, GivesTheDefinedBitsOnEveryInstructionSet) {
  for (const uint32_t encoding : {TENON_ENC_Q8_32, TENON_ENC_BF16, TENON_ENC_F16, TENON_ENC_F32}) {
    const MakeCase make = [encoding](uint32_t rows) {
      OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), encoding}, Step::plain(rows));
      std::vector<float> x = rows_of(rows, 192, 1);
      for (uint32_t r = 0; r < rows; ++r) {
        float* row = x.data() + r * 192;
        for (int i = 0; i < 32; ++i) row[i] = 0, row[32 + i] *= 1e-30f, row[64 + i] *= 3e4f, row[96 + i] *= 1e-6f;
        row[130] = 0.5f, row[140] = -127.0f;
      }
      c.input(rows, 192, x).output(192);
      return c;
    };
    check_op("encode", make, 0, {1, 2, 3, 16, 17});
    check_equal_variants("encode", make(3));
  }
}

TEST(CpuEncode, ReadsBlocksThatAViewTears) {
  check_op(
      "encode",
      [](uint32_t rows) {
        OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32}, Step::plain(rows));
        c.strided(rows, 96, rows_of(rows, 96, 1), 4, 2, 6).output(96);
        return c;
      },
      0, {1, 5});
}

TEST(CpuEncode, ABlockThatIsNotFiniteIsMarkedAndAlone) {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const int64_t at : {33, 50, 63}) {
      std::vector<float> x = rows_of(1, 96, 1);
      x[size_t(at)] = bad;
      OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32}, Step::plain(1));
      c.input(1, 96, x).output(96);
      for (const tenon_kernel* kernel : variants("encode")) {
        const RunResult got = run_op(*kernel, c);
        for (size_t i = 0; i < 96; ++i)
          EXPECT_EQ(std::isnan(got.out[0][i]), i / 32 == 1) << name_of(*kernel) << " " << i;
      }
    }
  }
}

TEST(CpuEmbed, ReadsEveryFloatTableAndTheOverlay) {
  for (const char* dtype : {"f32", "f16", "bf16", "f64"}) {
    check_op("embed",
             [&](uint32_t rows) {
               Step step = Step::plain(rows);
               std::vector<int32_t> ids;
               for (uint32_t r = 0; r < rows; ++r) ids.push_back(int32_t(r * 7 % 40));
               for (uint32_t r = 0; r < rows; ++r) step.overlay[r] = r % 4 == 2 ? int32_t(r % 3) : -1;
               OpCase c(TENON_OP_EMBED, tenon_embed_attr{sizeof(tenon_embed_attr), 25.3f}, step);
               c.ids(rows, 1, ids).input(3, 75, rows_of(3, 75, 4)).output(75);
               c.weight(dtype, 40, 75, Random(3).normals(40 * 75));
               return c;
             },
             0, {1, 2, 3, 17});
  }
}

TEST(CpuEmbed, RefusesATokenOutsideTheTable) {
  for (const int32_t token : {-1, 40}) {
    OpCase c(TENON_OP_EMBED, tenon_embed_attr{sizeof(tenon_embed_attr), 1}, Step::plain(1));
    c.ids(1, 1, {token}).weight("f32", 40, 16, Random(3).normals(40 * 16)).output(16);
    for (const tenon_kernel* kernel : variants("embed")) EXPECT_THROW(run_op(*kernel, c), std::runtime_error);
  }
}

TEST(CpuRope, ServesBothStylesPartHeadsAndLargePositions) {
  for (const uint32_t style : {TENON_ROPE_HALF, TENON_ROPE_ADJACENT}) {
    for (const uint32_t n_rot : {256u, 64u, 20u}) {
      check_op("rope",
               [&](uint32_t rows) {
                 tenon_rope_attr attr = {};
                 attr.struct_size = sizeof attr, attr.style = style, attr.head_dim = 256, attr.n_rot = n_rot;
                 attr.magnitude = 1.1f;
                 Step step = Step::plain(rows);
                 for (uint32_t r = 0; r < rows; ++r) step.position[r] = int32_t(r == 1 ? 999983 : r * r * 50);
                 OpCase c(TENON_OP_ROPE, attr, step);
                 std::vector<float> inv;
                 for (uint32_t i = 0; i < n_rot / 2; ++i) inv.push_back(float(std::pow(1e6, -2.0 * i / n_rot)));
                 c.strided(rows, 768, rows_of(rows, 768, 1), 3, 0, 256).weight("f32", 1, n_rot / 2, inv).output(768);
                 return c;
               },
               3e-7, {1, 2, 3, 16, 17});
    }
  }
}

TEST(CpuRope, TakesPositionsFromSections) {
  check_op("rope",
           [](uint32_t rows) {
             tenon_rope_attr attr = {};
             attr.struct_size = sizeof attr, attr.style = TENON_ROPE_HALF, attr.head_dim = 128, attr.n_rot = 64;
             attr.sections[0] = 11, attr.sections[1] = 11, attr.sections[2] = 10, attr.magnitude = 1;
             Step step = Step::plain(rows);
             for (uint32_t s = 0; s < 3; ++s)
               for (uint32_t r = 0; r < rows; ++r) step.position[s * step.max_rows + r] = int32_t(100 * s + 3 * r + 5);
             OpCase c(TENON_OP_ROPE, attr, step);
             std::vector<float> inv;
             for (int i = 0; i < 32; ++i) inv.push_back(float(std::pow(1e4, -i / 32.0)));
             c.input(rows, 256, rows_of(rows, 256, 1)).weight("f32", 1, 32, inv).output(256);
             return c;
           },
           3e-7, {1, 4, 17});
}

TEST(CpuSelectRows, GivesTheRowsThatTheStepNames) {
  for (const tenon_kernel* kernel : variants("select_rows")) {
    for (const uint32_t workers : {1u, 2u, 7u}) {
      Step step = Step::plain(9);
      step.select({8, 0, 3});
      OpCase c(TENON_OP_SELECT_ROWS, step);
      c.strided(9, 50, rows_of(9, 50, 1), 5, 1, 2).output(50, TENON_DOMAIN_OUTPUT_ROWS);
      const RunResult got = run_op(*kernel, c, {.workers = workers});
      EXPECT_TRUE(equal_bits(got.out[0], run_reference(c, got).out[0]));
    }
  }
}

TEST(CpuLogitsTail, CapsMasksAndReportsFaults) {
  for (const float cap : {0.0f, 30.0f}) {
    for (const tenon_kernel* kernel : variants("logits_tail")) {
      for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
        Step step = Step::plain(3);
        step.select({0, 1, 2});
        OpCase c(TENON_OP_LOGITS_TAIL, tenon_scale_attr{sizeof(tenon_scale_attr), cap}, step);
        std::vector<float> x = rows_of(3, 1003, 1, 20);
        x[1003 + 1000] = kNan;
        c.input(3, 1003, x).weight("i32", 1, 3, {0, 500, 1002}).output(1003, TENON_DOMAIN_OUTPUT_ROWS);
        c.domain(TENON_DOMAIN_OUTPUT_ROWS);
        const RunResult got = run_op(*kernel, c, {.workers = workers}), want = run_reference(c, got);
        const Difference d = compare(got.out[0], want.out[0]);
        EXPECT_TRUE(d.comparable && d.relative_rms < 2e-7) << name_of(*kernel) << ": " << d.text();
        EXPECT_EQ(got.status, want.status) << name_of(*kernel) << ", workers " << workers;
        EXPECT_EQ(got.status[1], 1u);
      }
    }
  }
}

}  // namespace
}  // namespace tenon::testing
