#include "composite_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "graph/composite.hpp"
#include "graph/ops.hpp"

namespace tenon::kit {
namespace {

constexpr int64_t kCols = 96;  // of every operand: any two fit, and it is a multiple of a block and of a head
constexpr uint32_t kHeadDim = 32;

template <typename Attr>
std::vector<uint8_t> bytes_of(Attr attr) {
  attr.struct_size = sizeof attr;
  std::vector<uint8_t> out(sizeof attr);
  std::memcpy(out.data(), &attr, sizeof attr);
  return out;
}

std::vector<uint8_t> attributes(uint32_t op) {
  switch (op) {
    case TENON_OP_NORM:
      return bytes_of(tenon_norm_attr{0, TENON_NORM_RMS, 1e-6f, 0});
    case TENON_OP_LINEAR:
      return bytes_of(tenon_linear_attr{});
    case TENON_OP_GLU:
      return bytes_of(tenon_glu_attr{0, TENON_ACT_SILU, 0, 0});
    case TENON_OP_GATE:
      return bytes_of(tenon_gate_attr{0, TENON_ACT_SIGMOID, 1, 0});
    case TENON_OP_SCALE:
      return bytes_of(tenon_scale_attr{0, 0.37f});
    case TENON_OP_SOFTCAP:
      return bytes_of(tenon_scale_attr{0, 30});
    case TENON_OP_ROPE: {
      tenon_rope_attr attr = {};
      attr.style = TENON_ROPE_HALF, attr.head_dim = attr.n_rot = kHeadDim, attr.magnitude = 1;
      return bytes_of(attr);
    }
    case TENON_OP_ADD:
    case TENON_OP_MUL:
      return {};
    default:
      throw std::runtime_error("the kit has no operands for " + std::string(graph::op_name(op)) +
                               " inside of a composite");
  }
}

Weight weight_for(uint32_t op, uint64_t seed) {
  if (op == TENON_OP_LINEAR) return make_weight("f32", kCols, kCols, seed, 0.1f);
  if (op != TENON_OP_ROPE) return make_weight("f32", 1, kCols, seed);
  std::vector<float> frequency;
  for (uint32_t i = 0; i < kHeadDim / 2; ++i)
    frequency.push_back(std::pow(10000.0f, -2.0f * float(i) / float(kHeadDim)));
  return Weight::encoded("f32", 1, kHeadDim / 2, frequency);
}

template <typename List>
size_t place(const List& names, const std::string& name) {
  return size_t(std::find(names.begin(), names.end(), name) - names.begin());
}

OpCase make_case(const graph::Pattern& pattern, uint32_t rows) {
  OpCase c(TENON_OP_COMPOSITE, Step::plain(rows));
  std::map<std::string, size_t> value;
  for (const std::string& name : pattern.in) {
    std::vector<float> data;
    for (uint32_t r = 0; r < rows; ++r) {
      const auto row = Random(900 + value.size() * 100003 + r * 31).normals(kCols);
      data.insert(data.end(), row.begin(), row.end());
    }
    value[name] = value.size();
    c.input(rows, kCols, std::move(data));
  }
  c.weights.resize(pattern.weight.size());
  for (const auto& s : pattern.statements) {
    if (!s.store.empty()) throw std::runtime_error("the kit has no cases for composites with stores");
    Part part;
    part.op = s.op, part.attr = attributes(s.op);
    for (const std::string& name : s.in) part.in.push_back(value.at(name));
    for (const std::string& name : s.out) {
      const size_t id = value.size();
      value[name] = id;
      part.out.push_back(id);
    }
    for (const std::string& name : s.weight) {
      const size_t at = place(pattern.weight, name);
      part.weight.push_back(at);
      if (c.weights[at].dtype.empty()) c.weights[at] = weight_for(s.op, 700 + at);
    }
    c.parts.push_back(std::move(part));
  }
  for (const std::string& name : pattern.out) {
    c.output(kCols);
    c.part_outputs.push_back(value.at(name));
  }
  return c;
}

}  // namespace

std::vector<KernelCase> composite_cases(std::string_view text) {
  const graph::Pattern pattern = graph::parse_pattern(text);
  make_case(pattern, 1);  // so that what cannot be made is said now
  return {{"operands of 96 columns", [pattern](uint32_t rows, Values) { return make_case(pattern, rows); }}};
}

double composite_tolerance(const OpCase& composite) {
  double sum = 0;
  for (const Part& part : composite.parts) sum += std::max(1e-6, tolerance_of(graph::op_name(part.op)).relative_rms);
  return sum;
}

RunResult run_parts(const OpCase& composite, const RunResult& like,
                    const std::function<RunResult(const OpCase&)>& run) {
  std::map<size_t, std::vector<float>> values;
  const uint32_t rows = composite.step.rows();
  for (size_t i = 0; i < composite.in.size(); ++i) {
    std::vector<float> data = composite.in[i].data;
    const uint32_t encoding = i < like.in_encoding.size() ? like.in_encoding[i] : uint32_t(TENON_ENC_F32);
    const int64_t cols = composite.in[i].cols;
    Bytes row(size_t(tenon_encoding_row_bytes(encoding, cols)));
    for (uint32_t r = 0; r < rows; ++r) {
      encode_row(encoding, data.data() + r * cols, cols, row.data());
      decode_row(encoding, row.data(), cols, data.data() + r * cols);
    }
    values[i] = std::move(data);
  }
  for (const Part& part : composite.parts) {
    OpCase c(part.op, composite.step);
    c.attr = part.attr, c.phases = composite.phases;
    for (const size_t id : part.in) c.input(rows, kCols, values.at(id));
    for (const size_t id : part.weight) c.weight(composite.weights[id]);
    for (size_t i = 0; i < part.out.size(); ++i) c.output(kCols);
    RunResult result = run(c);
    if (!result.accepted)
      throw std::runtime_error("no kernel runs its part " + std::string(graph::op_name(part.op)) + ": " +
                               result.why_not);
    for (size_t i = 0; i < part.out.size(); ++i) values[part.out[i]] = std::move(result.out[i]);
  }
  RunResult out;
  out.accepted = true;
  for (const size_t id : composite.part_outputs) out.out.push_back(values.at(id));
  out.status = composite.step.status;
  return out;
}

}  // namespace tenon::kit
