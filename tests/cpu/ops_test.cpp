// Ops on columns: glu, gate, add, mul, scale, softcap, concat.
#include <cmath>
#include <limits>

#include "cpu_kernels.hpp"

namespace tenon::testing {
namespace {

constexpr double kRounding = 2e-7;  // a few roundings of f32

tenon_glu_attr glu_attr(uint32_t activation, float limit = 0, float alpha = 1.702f) {
  return {sizeof(tenon_glu_attr), activation, limit, alpha};
}

TEST(CpuGlu, ServesEveryActivationAndLimit) {
  for (const uint32_t activation : {TENON_ACT_SILU, TENON_ACT_GELU_TANH, TENON_ACT_SIGMOID, TENON_ACT_SWIGLU_OAI}) {
    for (const float limit : {0.0f, 0.75f}) {
      SCOPED_TRACE("activation " + std::to_string(activation) + ", limit " + std::to_string(limit));
      check_op("glu",
               [&](uint32_t rows) {
                 OpCase c(TENON_OP_GLU, glu_attr(activation, limit), Step::plain(rows));
                 c.input(rows, 333, rows_of(rows, 333, 1, 4)).input(rows, 333, rows_of(rows, 333, 2)).output(333);
                 return c;
               },
               kRounding, {1, 2, 5, 17});
    }
  }
}

TEST(CpuGlu, ReadsGateAndUpFromOneStridedValue) {
  check_op("glu",
           [](uint32_t rows) {
             OpCase c(TENON_OP_GLU, glu_attr(TENON_ACT_SILU), Step::plain(rows));
             c.strided(rows, 96, rows_of(rows, 96, 1), 4, 0, 24)
                 .strided(rows, 96, rows_of(rows, 96, 2), 2, 8, 40)
                 .output(96);
             return c;
           },
           kRounding, {1, 3, 17});
}

TEST(CpuGlu, IsAccurateOverTheWholeRange) {
  std::vector<float> x;
  for (float v = -90; v <= 90; v += 0.01f) x.push_back(v);
  const auto n = int64_t(x.size());
  for (const uint32_t activation : {TENON_ACT_SILU, TENON_ACT_GELU_TANH}) {
    OpCase c(TENON_OP_GLU, glu_attr(activation), Step::plain(1));
    c.input(1, n, x).input(1, n, std::vector<float>(x.size(), 1.0f)).output(n);
    for (const tenon_kernel* kernel : variants("glu")) {
      const RunResult got = run_op(*kernel, c);
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i];
        const double want = activation == TENON_ACT_SILU
                                ? v / (1 + std::exp(-v))
                                : v / (1 + std::exp(-2 * 0.7978845608028654 * (v + 0.044715 * v * v * v)));
        if (std::fabs(want) < 1e-30) {
          EXPECT_LT(std::fabs(got.out[0][i]), 1e-29);
          continue;
        }
        // The exponent's own rounding grows with its size: half a unit of an exponent of 64 is 4e-6.
        const double bound = activation == TENON_ACT_SILU ? 3e-7 + 1e-7 * std::fabs(v) : 1e-5;
        worst = std::max(worst, std::fabs(got.out[0][i] - want) / std::fabs(want) / bound);
      }
      EXPECT_LT(worst, 1) << name_of(*kernel) << ", activation " << activation;
    }
  }
}

TEST(CpuGate, ServesAChannelAHeadAndARow) {
  for (const uint32_t group : {1u, 24u, 96u}) {
    for (const uint32_t activation : {TENON_ACT_SIGMOID, TENON_ACT_SILU}) {
      check_op(
          "gate",
          [&](uint32_t rows) {
            OpCase c(TENON_OP_GATE, tenon_gate_attr{sizeof(tenon_gate_attr), activation, group, 0}, Step::plain(rows));
            c.strided(rows, 96, rows_of(rows, 96, 1), 4, 24, 24)
                .input(rows, 96 / group, rows_of(rows, 96 / group, 2))
                .output(96);
            return c;
          },
          kRounding, {1, 4, 17});
    }
  }
}

TEST(CpuAdd, AddsAndMultipliesAlikeOnEveryInstructionSet) {
  for (const uint32_t op : {TENON_OP_ADD, TENON_OP_MUL}) {
    const MakeCase make = [op](uint32_t rows) {
      OpCase c(op, Step::plain(rows));
      c.input(rows, 77, rows_of(rows, 77, 1)).strided(rows, 77, rows_of(rows, 77, 2), 7, 3, 5).output(77);
      return c;
    };
    const std::string name = op == TENON_OP_ADD ? "add" : "mul";
    check_op(name, make, 0);
    check_equal_variants(name, make(5));
  }
}

TEST(CpuMul, TakesAWeightOfARowOrOneNumber) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const int64_t entries : {1, 83}) {
      check_op("mul",
               [&](uint32_t rows) {
                 OpCase c(TENON_OP_MUL, Step::plain(rows));
                 c.input(rows, 83, rows_of(rows, 83, 1));
                 c.weight(dtype, 1, entries, Random(9).normals(size_t(entries))).output(83);
                 return c;
               },
               0, {1, 3, 17});
    }
  }
}

TEST(CpuAdd, TakesABiasOfARow) {
  for (const char* dtype : {"f32", "f16", "bf16"})
    check_op("add",
             [&](uint32_t rows) {
               OpCase c(TENON_OP_ADD, Step::plain(rows));
               c.strided(rows, 84, rows_of(rows, 84, 1), 7, 3, 5);
               return c.weight(dtype, 1, 84, Random(9).normals(84)).output(84);
             },
             0, {1, 3, 17});
}

TEST(CpuScale, MultipliesByTheFactor) {
  check_op(
      "scale",
      [](uint32_t rows) {
        OpCase c(TENON_OP_SCALE, tenon_scale_attr{sizeof(tenon_scale_attr), 25.298221f}, Step::plain(rows));
        c.input(rows, 640, rows_of(rows, 640, 1)).output(640);
        return c;
      },
      0);
}

TEST(CpuSoftcap, IsAccurateForSmallAndLargeValues) {
  for (const float size : {1e-4f, 1.0f, 20.0f, 500.0f}) {
    check_op("softcap",
             [size](uint32_t rows) {
               OpCase c(TENON_OP_SOFTCAP, tenon_scale_attr{sizeof(tenon_scale_attr), 30}, Step::plain(rows));
               c.input(rows, 101, rows_of(rows, 101, 1, size)).output(101);
               return c;
             },
             kRounding, {1, 2, 17});
  }
}

TEST(CpuConcat, JoinsPlainAndStridedValues) {
  check_op("concat",
           [](uint32_t rows) {
             OpCase c(TENON_OP_CONCAT, Step::plain(rows));
             c.strided(rows, 48, rows_of(rows, 48, 1), 3, 5, 7).input(rows, 37, rows_of(rows, 37, 2)).output(85);
             return c;
           },
           0, {1, 2, 7, 17});
}

TEST(CpuColumns, ANotFiniteValueStaysInItsPlace) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"glu", "softcap"}) {
    for (const tenon_kernel* kernel : variants(op)) {
      std::vector<float> x = rows_of(2, 40, 1);
      x[7] = nan;
      OpCase c = std::string(op) == "glu"
                     ? OpCase(TENON_OP_GLU, glu_attr(TENON_ACT_GELU_TANH, 1), Step::plain(2))
                     : OpCase(TENON_OP_SOFTCAP, tenon_scale_attr{sizeof(tenon_scale_attr), 30}, Step::plain(2));
      c.input(2, 40, x);
      if (std::string(op) == "glu") c.input(2, 40, rows_of(2, 40, 2));
      c.output(40);
      const RunResult got = run_op(*kernel, c);
      for (size_t i = 0; i < got.out[0].size(); ++i) EXPECT_EQ(std::isnan(got.out[0][i]), i == 7) << i;
    }
  }
}

}  // namespace
}  // namespace tenon::testing
