// Composites: the bits of their parts' kernels, whatever the shapes.
#include <algorithm>
#include <array>
#include <cmath>

#include "checks.hpp"
#include "ops/composite_text.hpp"

namespace tenon::gpu_test {
namespace {

using cuda::CompositeText;

struct RowShape {
  int64_t cols;
  uint32_t group;     // of norms; 0: the row
  uint32_t gates;     // columns of a gate; 0: the row
  uint32_t encoding;  // of what is encoded
  bool is_strided;
};

template <typename Attr>
std::vector<uint8_t> bytes_of(Attr attr) {
  attr.struct_size = sizeof attr;
  const auto* begin = reinterpret_cast<const uint8_t*>(&attr);
  return {begin, begin + sizeof attr};
}

constexpr struct {
  const char* name;
  uint32_t op;
} kRowOps[] = {{"norm", TENON_OP_NORM}, {"add", TENON_OP_ADD},   {"mul", TENON_OP_MUL},      {"scale", TENON_OP_SCALE},
               {"glu", TENON_OP_GLU},   {"gate", TENON_OP_GATE}, {"encode", TENON_OP_ENCODE}};
uint32_t row_op(const std::string& name) {
  for (const auto& op : kRowOps)
    if (op.name == name) return op.op;
  return TENON_OP_NONE;
}

std::vector<uint8_t> attributes(uint32_t op, const RowShape& shape) {
  switch (op) {
    case TENON_OP_NORM:
      return bytes_of(tenon_norm_attr{0, TENON_NORM_RMS, 1e-6f, shape.group});
    case TENON_OP_SCALE:
      return bytes_of(tenon_scale_attr{0, 0.37f});
    case TENON_OP_GLU:
      return bytes_of(tenon_glu_attr{0, TENON_ACT_GELU_TANH, shape.is_strided ? 1.5f : 0.0f, 0});
    case TENON_OP_GATE:
      return bytes_of(tenon_gate_attr{0, TENON_ACT_SIGMOID, shape.gates, 0});
    case TENON_OP_ENCODE:
      return bytes_of(tenon_encode_attr{0, shape.encoding});
    default:
      return {};
  }
}

void add_row_input(OpCase& c, int64_t cols, uint64_t seed, bool is_strided) {
  const int64_t rows = c.step.n_rows;
  auto values = Random(seed).normals(size_t(rows * cols), 2);
  if (is_strided && cols % 4 == 0) {
    c.strided(rows, cols, std::move(values), 4, seed % 2 ? 4 : 5, seed % 2 ? 4 : 3);
  } else {
    c.input(rows, cols, std::move(values));
  }
}

OpCase row_case(const CompositeText& text, const RowShape& shape, uint32_t rows) {
  OpCase c(TENON_OP_COMPOSITE, Step::plain(rows));
  const int64_t gates = shape.gates ? shape.cols / shape.gates : 1;
  for (int i = 0; i < text.n_in; ++i) {
    const bool is_gate = std::any_of(text.statements.begin(), text.statements.end(),
                                     [&](const auto& s) { return s.op == "gate" && s.in[1] == i; });
    add_row_input(c, is_gate ? gates : shape.cols, 11 + uint64_t(i), shape.is_strided && !is_gate);
  }
  // One row is not finite, and one is 0.
  if (rows > 2) {
    c.in[0].data[size_t(shape.cols) + 3] = INFINITY;
    for (Input& x : c.in) std::fill_n(x.data.begin() + 2 * x.cols, x.cols, 0.0f);
  }
  std::vector<uint32_t> encoding(size_t(text.n_values), TENON_ENC_F32);
  for (const auto& s : text.statements) {
    Part part;
    part.op = row_op(s.op), part.attr = attributes(part.op, shape);
    for (const int id : s.in) part.in.push_back(size_t(id));
    part.out = {size_t(s.out)};
    for (const int id : s.weight) {
      part.weight.push_back(size_t(id));
      if (c.weights.size() <= size_t(id)) c.weights.resize(size_t(id) + 1);
      const int64_t numbers = part.op == TENON_OP_NORM && shape.group ? shape.group : part.op == TENON_OP_MUL ? 1 : shape.cols;
      c.weights[size_t(id)] = random_weight("f32", 1, numbers, 70 + uint64_t(id));
    }
    if (part.op == TENON_OP_ENCODE) encoding[size_t(s.out)] = shape.encoding;
    c.parts.push_back(std::move(part));
  }
  for (const int id : text.out) {
    c.output(shape.cols), c.out.back().encoding = encoding[size_t(id)];
    c.part_outputs.push_back(size_t(id));
  }
  return c;
}

bool is_row_chain(const CompositeText& text) {
  return std::all_of(text.statements.begin(), text.statements.end(),
                     [](const auto& s) { return row_op(s.op) != TENON_OP_NONE; });
}

void check_row_chain(Checks& checks, const CompositeText& text) {
  const RowShape shapes[] = {
      {640, 0, 1, TENON_ENC_Q8_32, false},    {4128, 0, 32, TENON_ENC_Q8_32, true},
      {512, 128, 128, TENON_ENC_Q8_32, true}, {5120, 0, 0, TENON_ENC_F16, false},
      {36, 12, 4, TENON_ENC_BF16, false},     {8192, 0, 1, TENON_ENC_Q8_32, false},
      {1056, 0, 0, TENON_ENC_BF16, true},
  };
  const size_t n = checks.is_small() ? 3 : std::size(shapes);
  for (size_t i = 0; i < n; ++i) {
    const RowShape& shape = shapes[i];
    const std::string what = std::to_string(shape.cols) + " columns, groups of " + std::to_string(shape.group);
    checks.against_parts(row_case(text, shape, checks.is_small() ? 3 : 5), what);
  }
  checks.row_exact(row_case(text, shapes[0], checks.is_small() ? 8 : 64), "640 columns");
  checks.refused(row_case(text, {639, 0, 1, TENON_ENC_BF16, false}, 1), "639 columns");
}

}  // namespace

void check_composites(const Device& device, bool is_small, std::vector<Line>& lines) {
  for (const tenon_kernel* kernel : Kit::instance().all_kernels()) {
    const std::string_view pattern(kernel->pattern.data, kernel->pattern.size);
    if (std::string_view(kernel->backend.data, kernel->backend.size) != "cuda") continue;
    if (pattern.find("->") == std::string_view::npos) continue;
    const CompositeText text = cuda::read_composite(pattern);
    Checks checks(device, std::string(kernel->name.data, kernel->name.size), 0, is_small);
    if (is_row_chain(text)) check_row_chain(checks, text);
    checks.expect(checks.line().cases > 0, "there are no cases for it");
    lines.push_back(checks.line());
  }
}

}  // namespace tenon::gpu_test
