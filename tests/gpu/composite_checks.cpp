// Composites: the bits of their parts' kernels, whatever the shapes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

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

// --- Heads of an attention ------------------------------------------------------------------------------------------

struct HeadsShape {
  uint32_t heads, kv_heads, dim, dim_v, n_rot, style;
  const char *dtype_k, *dtype_v;
  bool is_strided;
};

enum Role { kQuery, kKey, kValue };
// What becomes of a value.
Role role_of(const CompositeText& text, int value) {
  for (const auto& s : text.statements) {
    if (s.op == "kv_write" && s.in[0] == value) return kKey;
    if (s.op == "kv_write" && s.in[1] == value) return kValue;
    if (s.op != "kv_write" && s.in[0] == value) return role_of(text, s.out);
  }
  return kQuery;
}

uint32_t head_op(const std::string& name) {
  return name == "norm"       ? TENON_OP_NORM
         : name == "rope"     ? TENON_OP_ROPE
         : name == "add"      ? TENON_OP_ADD
         : name == "kv_write" ? TENON_OP_KV_WRITE
                              : TENON_OP_NONE;
}

std::vector<uint8_t> head_attributes(uint32_t op, const HeadsShape& shape, uint32_t dim) {
  if (op == TENON_OP_NORM) return bytes_of(tenon_norm_attr{0, TENON_NORM_RMS, 1e-6f, dim});
  if (op == TENON_OP_KV_WRITE) return bytes_of(tenon_kv_write_attr{0, shape.kv_heads, shape.dim, shape.dim_v});
  if (op != TENON_OP_ROPE) return {};
  tenon_rope_attr attr = {};
  attr.style = shape.style, attr.head_dim = dim, attr.n_rot = shape.n_rot, attr.magnitude = 1.1f;
  if (shape.is_strided) attr.sections[0] = attr.sections[1] = 11, attr.sections[2] = 10;
  return bytes_of(attr);
}

Weight frequencies(uint32_t n_rot) {
  std::vector<float> out;
  for (uint32_t i = 0; i < n_rot / 2; ++i) out.push_back(std::pow(10000.0f, -2.0f * float(i) / float(n_rot)));
  return Weight::encoded("f32", 1, n_rot / 2, out);
}

OpCase heads_case(const CompositeText& text, const HeadsShape& shape, const std::vector<SeqRows>& sequences) {
  OpCase c(TENON_OP_COMPOSITE, Step(sequences));
  Random random(5);
  int64_t longest = 1;
  for (const SeqRows& part : sequences) longest = std::max<int64_t>(longest, part.past + part.rows);
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t r = 0; r < c.step.n_rows; ++r) c.step.position[i * c.step.max_rows + r] = int32_t(random.below(900));
  const auto dim_of = [&](int value) { return role_of(text, value) == kValue ? shape.dim_v : shape.dim; };
  const auto cols_of = [&](int value) {
    return int64_t(role_of(text, value) == kQuery ? shape.heads : shape.kv_heads) * dim_of(value);
  };
  for (int i = 0; i < text.n_in; ++i) {
    const int64_t rows = c.step.n_rows, cols = cols_of(i), heads = cols / dim_of(i);
    auto values = random.normals(size_t(rows * cols));
    if (shape.is_strided && role_of(text, i) == kQuery) {
      c.strided(rows, cols, std::move(values), heads, 0, dim_of(i));  // a gate behind every head
    } else {
      c.input(rows, cols, std::move(values));
    }
  }
  for (const auto& s : text.statements) {
    Part part;
    part.op = head_op(s.op), part.attr = head_attributes(part.op, shape, dim_of(s.in[0]));
    for (const int id : s.in) part.in.push_back(size_t(id));
    if (s.out >= 0) part.out = {size_t(s.out)};
    if (part.op == TENON_OP_KV_WRITE) part.store = {0};
    for (const int id : s.weight) {
      part.weight.push_back(size_t(id));
      if (c.weights.size() <= size_t(id)) c.weights.resize(size_t(id) + 1);
      const int64_t numbers = part.op == TENON_OP_ADD ? cols_of(s.in[0]) : dim_of(s.in[0]);
      c.weights[size_t(id)] =
          part.op == TENON_OP_ROPE ? frequencies(shape.n_rot) : random_weight("f32", 1, numbers, 30 + uint64_t(id));
    }
    c.parts.push_back(std::move(part));
  }
  c.output(int64_t(shape.heads) * shape.dim), c.part_outputs = {size_t(text.out[0])};
  if (std::any_of(text.statements.begin(), text.statements.end(), [](const auto& s) { return s.op == "kv_write"; }))
    c.store(Store::paged(shape.kv_heads, shape.dim, shape.dim_v, shape.dtype_k, shape.dtype_v, uint32_t(sequences.size()),
                         longest));
  return c;
}

bool is_head_chain(const CompositeText& text) {
  return std::any_of(text.statements.begin(), text.statements.end(), [](const auto& s) { return s.op == "rope"; });
}

void check_head_chain(Checks& checks, const CompositeText& text) {
  const HeadsShape shapes[] = {
      {3, 2, 64, 64, 64, TENON_ROPE_HALF, "f16", "f16", true},
      {2, 1, 128, 96, 48, TENON_ROPE_ADJACENT, "q8_0", "f32", false},
      {4, 2, 256, 256, 64, TENON_ROPE_HALF, "f32", "bf16", true},
      {2, 1, 512, 512, 512, TENON_ROPE_HALF, "fp8_e4m3", "q5_1", false},
  };
  const size_t n = checks.is_small() ? 2 : std::size(shapes);
  for (size_t i = 0; i < n; ++i)
    checks.against_parts(heads_case(text, shapes[i], {{60, 6}, {0, 1}, {127, 2}}), "heads of " + std::to_string(shapes[i].dim));
  checks.row_exact(heads_case(text, shapes[0], std::vector<SeqRows>(checks.is_small() ? 4 : 40, SeqRows{})), "heads of 64");
  HeadsShape odd = shapes[0];
  odd.dim = 66, odd.n_rot = 64;
  checks.refused(heads_case(text, odd, {{0, 1}}), "heads of 66");
}

// --- The gated delta rule between its norms --------------------------------------------------------------------------

bool is_delta_chain(const CompositeText& text) {
  return std::any_of(text.statements.begin(), text.statements.end(), [](const auto& s) { return s.op == "gated_delta_rule"; });
}

// The rule's own inputs come first, then the gate.
OpCase delta_case(const CompositeText& text, const StateOp& op, const std::vector<SeqRows>& parts, uint32_t phase,
                  uint32_t encoding) {
  const OpCase rule = state_case(op, parts, phase, 3);
  tenon_gated_delta_rule_attr attr;
  std::memcpy(&attr, rule.attr.data(), sizeof attr);
  OpCase c(TENON_OP_COMPOSITE, rule.step);
  c.in = rule.in, c.stores = rule.stores, c.weights = rule.weights, c.phases = phase;
  const int64_t cols = int64_t(attr.value_heads) * attr.value_dim, rows = c.step.n_rows;
  c.strided(rows, cols, Random(8).normals(size_t(rows * cols)), 4, 8, 4);
  c.weights.push_back(random_weight("f32", 1, attr.value_dim, 9));
  const auto norm = [](uint32_t kind, uint32_t group) { return bytes_of(tenon_norm_attr{0, kind, 1e-6f, group}); };
  const std::vector<std::vector<uint8_t>> attributes = {norm(TENON_NORM_L2, attr.key_dim),
                                                        norm(TENON_NORM_L2, attr.key_dim),
                                                        rule.attr,
                                                        norm(TENON_NORM_RMS, attr.value_dim),
                                                        bytes_of(tenon_gate_attr{0, TENON_ACT_SILU, 1, 0}),
                                                        bytes_of(tenon_encode_attr{0, encoding})};
  const uint32_t ops[] = {TENON_OP_NORM, TENON_OP_NORM, TENON_OP_GATED_DELTA_RULE, TENON_OP_NORM, TENON_OP_GATE, TENON_OP_ENCODE};
  for (size_t i = 0; i < text.statements.size(); ++i) {
    const auto& s = text.statements[i];
    Part part;
    part.op = ops[i], part.attr = attributes[i], part.out = {size_t(s.out)};
    part.in.assign(s.in.begin(), s.in.end()), part.weight.assign(s.weight.begin(), s.weight.end());
    if (part.op == TENON_OP_GATED_DELTA_RULE) part.store = {0};
    c.parts.push_back(std::move(part));
  }
  c.output(cols), c.part_outputs = {size_t(text.out[0])};
  if (text.statements.back().op == "encode") c.out[0].encoding = encoding;
  return c;
}

void check_delta_chain(Checks& checks, const CompositeText& text) {
  struct Shape {
    uint32_t nk, nv, dk, dv, map, encoding;
  };
  for (const Shape& s : {Shape{2, 4, 128, 128, TENON_HEAD_MAP_MOD, TENON_ENC_Q8_32},
                         Shape{2, 4, 64, 96, TENON_HEAD_MAP_DIV, TENON_ENC_BF16}, Shape{1, 3, 36, 32, TENON_HEAD_MAP_MOD, TENON_ENC_Q8_32}}) {
    const StateOp op = delta_op(s.nk, s.nv, s.dk, s.dv, s.map);
    const std::string what = std::to_string(s.nv) + " heads of " + std::to_string(s.dk) + " and " + std::to_string(s.dv);
    checks.against_parts(delta_case(text, op, every_transaction(), TENON_PHASE_DECODE, s.encoding), what);
    if (checks.is_small()) break;
    checks.against_parts(delta_case(text, op, {{.past = 0, .rows = 20}, {.past = 64, .rows = 17}}, TENON_PHASE_PREFILL, s.encoding),
                         what + ", a prompt");
  }
  const StateOp small = delta_op(1, 2, 32, 32, TENON_HEAD_MAP_DIV);
  checks.row_exact(delta_case(text, small, std::vector<SeqRows>(checks.is_small() ? 4 : 33, SeqRows{}), TENON_PHASE_DECODE,
                              TENON_ENC_Q8_32),
                   "heads of 32");
  checks.refused(delta_case(text, delta_op(1, 1, 256, 32, TENON_HEAD_MAP_DIV), {SeqRows{}}, TENON_PHASE_DECODE, TENON_ENC_BF16),
                 "keys of 256");
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
    if (is_head_chain(text)) check_head_chain(checks, text);
    if (is_delta_chain(text)) check_delta_chain(checks, text);
    checks.expect(checks.line().cases > 0, "there are no cases for it");
    lines.push_back(checks.line());
  }
}

}  // namespace tenon::gpu_test
