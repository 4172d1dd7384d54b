// add, mul, scale, softcap, glu, gate, concat, encode.
#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

uint32_t rows_of(bool is_small) { return is_small ? 8 : 64; }

// An input of every kind of layout: plain, or a strided view.
OpCase& add_input(OpCase& c, int64_t cols, uint64_t seed, bool strided, float scale = 1) {
  const int64_t rows = c.step.n_rows;
  auto values = Random(seed).normals(size_t(rows * cols), scale);
  if (strided && cols % 4 == 0) return c.strided(rows, cols, std::move(values), 4, 5, 3);
  return c.input(rows, cols, std::move(values));
}

template <typename Make>
void check_all(Checks& checks, const Make& make) {
  for (const int64_t cols : {4, 260, 1031})
    for (const bool strided : {false, true}) {
      const std::string what = std::to_string(cols) + (strided ? " columns of a view" : " columns");
      checks.against_reference(make(Step::plain(5), cols, strided), what);
      if (cols == (checks.is_small() ? 4 : 260))
        checks.row_exact(make(Step::plain(rows_of(checks.is_small())), cols, strided), what);
      if (checks.is_small() && strided) return;
    }
}

tenon_scale_attr factor(float value) { return {sizeof(tenon_scale_attr), value}; }

}  // namespace

void check_elementwise(const Device& device, bool is_small, std::vector<Line>& lines) {
  const auto check = [&](const char* kernel, double bound, const auto& make) {
    Checks checks(device, kernel, bound, is_small);
    check_all(checks, make);
    lines.push_back(checks.line());
  };
  {
    Checks checks(device, "cuda.add", 0, is_small);
    check_all(checks, [](Step step, int64_t cols, bool strided) {
      OpCase c(TENON_OP_ADD, std::move(step));
      add_input(c, cols, 1, strided), add_input(c, cols, 2, false).output(cols);
      return c;
    });
    for (const std::string& dtype : float_dtypes()) {
      OpCase c(TENON_OP_ADD, Step::plain(3));
      add_input(c, 77, 1, false).weight(random_weight(dtype, 1, 77, 4)).output(77);
      checks.against_reference(c, dtype + " bias");
    }
    OpCase one(TENON_OP_ADD, Step::plain(1));
    add_input(one, 77, 1, false).weight(random_weight("f32", 1, 1, 4)).output(77);
    checks.refused(one, "a bias of one number");
    lines.push_back(checks.line());
  }
  check("cuda.scale", 0, [](Step step, int64_t cols, bool strided) {
    OpCase c(TENON_OP_SCALE, factor(1.7f), std::move(step));
    add_input(c, cols, 1, strided).output(cols);
    return c;
  });
  check("cuda.softcap", 2e-7, [](Step step, int64_t cols, bool strided) {
    OpCase c(TENON_OP_SOFTCAP, factor(30.0f), std::move(step));
    add_input(c, cols, 1, strided, 40).output(cols);
    return c;
  });
  {
    Checks checks(device, "cuda.mul", 0, is_small);
    check_all(checks, [](Step step, int64_t cols, bool strided) {
      OpCase c(TENON_OP_MUL, std::move(step));
      add_input(c, cols, 1, strided), add_input(c, cols, 2, !strided).output(cols);
      return c;
    });
    for (const std::string& dtype : float_dtypes())
      for (const int64_t n : {int64_t(1), int64_t(77)}) {
        OpCase c(TENON_OP_MUL, Step::plain(3));
        add_input(c, 77, 1, false).weight(random_weight(dtype, 1, n, 4)).output(77);
        checks.against_reference(c, dtype + " weight of " + std::to_string(n));
      }
    lines.push_back(checks.line());
  }
  {
    Checks checks(device, "cuda.glu", 4e-7, is_small);
    for (const uint32_t activation :
         {TENON_ACT_NONE, TENON_ACT_SILU, TENON_ACT_GELU_TANH, TENON_ACT_SIGMOID, TENON_ACT_SWIGLU_OAI})
      for (const float limit : {0.0f, 1.5f})
        check_all(checks, [=](Step step, int64_t cols, bool strided) {
          OpCase c(TENON_OP_GLU, tenon_glu_attr{sizeof(tenon_glu_attr), activation, limit, 1.702f}, std::move(step));
          add_input(c, cols, 1, strided, 3), add_input(c, cols, 2, false).output(cols);
          return c;
        });
    lines.push_back(checks.line());
  }
  {
    Checks checks(device, "cuda.gate", 4e-7, is_small);
    for (const uint32_t activation : {TENON_ACT_SILU, TENON_ACT_SIGMOID})
      for (const uint32_t group : {1u, 4u, 0u})
        check_all(checks, [=](Step step, int64_t cols, bool strided) {
          const auto width = group == 4 && cols % 4 ? 1u : group ? group : uint32_t(cols);
          OpCase c(TENON_OP_GATE, tenon_gate_attr{sizeof(tenon_gate_attr), activation, width, 0}, std::move(step));
          add_input(c, cols, 1, strided), add_input(c, cols / width, 2, false, 3).output(cols);
          return c;
        });
    lines.push_back(checks.line());
  }
  check("cuda.concat", 0, [](Step step, int64_t cols, bool strided) {
    OpCase c(TENON_OP_CONCAT, std::move(step));
    add_input(c, cols, 1, strided), add_input(c, 33, 2, false).output(cols + 33);
    return c;
  });
  {
    Checks checks(device, "cuda.encode", 0, is_small);
    for (const uint32_t encoding : {TENON_ENC_F32, TENON_ENC_BF16, TENON_ENC_F16, TENON_ENC_Q8_32})
      for (const int64_t cols : {32, 544, 1056}) {
        const auto make = [=](Step step) {
          OpCase c(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), encoding}, std::move(step));
          add_input(c, cols, 1, cols == 544, 1e3f).output(cols);
          // Zeros, numbers beyond f16, subnormals, and a row that is not finite.
          auto& x = c.in[0].data;
          for (int i = 0; i < 32; ++i) x[size_t(i)] = 0, x[size_t(cols + i)] = 1e-41f * float(i);
          x[size_t(2 * cols)] = 7e4f, x[size_t(3 * cols + 31)] = -1e30f;
          return c;
        };
        checks.against_reference(make(Step::plain(5)),
                                 "encoding " + std::to_string(encoding) + ", " + std::to_string(cols));
        checks.row_exact(make(Step::plain(rows_of(is_small))), "encoding " + std::to_string(encoding));
      }
    OpCase odd(TENON_OP_ENCODE, tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32}, Step::plain(1));
    add_input(odd, 33, 1, false).output(33);
    checks.refused(odd, "33 columns as q8_32");
    lines.push_back(checks.line());
  }
}

}  // namespace tenon::gpu_test
