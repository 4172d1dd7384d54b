// Which composites of row-wise ops there are, which nodes they take, and the steps that their kernel walks.
#include "row_chain.hpp"

#include <algorithm>
#include <vector>

#include "composite_kernel.hpp"
#include "row_shape.hpp"

namespace tenon::cuda {
namespace {

constexpr int32_t kPartWidth = 512;  // columns of a block where no norm needs a whole row

// The residual stream's a: what stands in front of a norm. Then what is made of it. Texts with fewer outputs come first: the
// core tries composites of as many ops in this order.
constexpr struct {
  const char *name, *text;
} kSums[] = {
    {"add", "a = add(x, r)"},
    {"norm_add", "p = norm(y; v); a = add(x, p)"},
    {"norm_add_mul", "p = norm(y; v); b = add(x, p); a = mul(b; s)"},
    {"add_add", "b = add(c, d); a = add(x, b)"},
    {"gate_add_add", "g = gate(d, z); b = add(c, g); a = add(x, b)"},
    {"norm_add_norm_add", "q = norm(c; u); b = add(d, q); p = norm(b; v); a = add(x, p)"},
    {"norm_add_norm_add_mul", "q = norm(c; u); d = add(e, q); p = norm(d; v); b = add(x, p); a = mul(b; s)"},
};
constexpr struct {
  const char *name, *text;
} kUses[] = {
    {"norm_encode", "; n = norm(a; w); f = encode(n) -> a, f"}, {"norm_encode_both", "; n = norm(a; w); f = encode(n) -> a, n, f"},
    {"norm", "; n = norm(a; w) -> a, n"},                       {"encode", "; f = encode(a) -> a, f"},
    {"", " -> a"},
};
constexpr struct {
  const char *name, *text;
} kOthers[] = {
    {"norm_encode", "n = norm(x; w); e = encode(n) -> e"},
    {"norm_encode_both", "n = norm(x; w); e = encode(n) -> n, e"},
    {"norm_scale", "n = norm(x; w); s = scale(n) -> s"},
    {"glu_encode", "g = glu(a, b); e = encode(g) -> e"},
    {"gate_encode", "g = gate(x, z); e = encode(g) -> e"},
    {"norm_gate_encode", "n = norm(x; w); g = gate(n, z); e = encode(g) -> e"},
    {"norm_gate", "n = norm(x; w); g = gate(n, z) -> g"},
    {"scale_norm_add_scale", "s = scale(x); n = norm(s; w); a = add(n, r); y = scale(a) -> y"},
};

using Offer = sdk::Offer;
using Statement = CompositeText::Statement;

const tenon_norm_attr& norm_attr(const tenon_node& part) { return *static_cast<const tenon_norm_attr*>(part.attr); }

uint32_t gate_group(const tenon_node& part) {
  const uint32_t group = static_cast<const tenon_gate_attr*>(part.attr)->group;
  return group ? group : uint32_t(part.in[0].cols);
}

// Columns that a block must have together; 0: any number.
int64_t norm_width(const sdk::Node& node) {
  for (const tenon_node& part : node.parts())
    if (part.op == TENON_OP_NORM) return norm_attr(part).group ? norm_attr(part).group : part.in[0].cols;
  return 0;
}

Offer accept_part(const tenon_node& part) {
  const sdk::Node node(&part);
  switch (part.op) {
    case TENON_OP_NORM:
      return accept_norm(node);
    case TENON_OP_GLU:
      return accept_glu(node);
    case TENON_OP_GATE:
      return accept_gate(node);
    case TENON_OP_ADD:
    case TENON_OP_MUL:
      return accept_pair(node);
    case TENON_OP_ENCODE:
      return accept_encode(node);
    default:
      return accept_plain(node);
  }
}

Offer accept_chain(const sdk::Node& node) {
  const int64_t cols = node.parts()[0].in[0].cols, width = norm_width(node);
  if (cols % kFour || width % kFour)
    return sdk::refuse("%lld columns, of which %lld under a norm: multiples of 4 are served", static_cast<long long>(cols),
                       static_cast<long long>(width));
  if (width > kMaxChainWidth)
    return sdk::refuse("a norm over %lld columns: up to %lld are served", static_cast<long long>(width),
                       static_cast<long long>(kMaxChainWidth));
  for (const tenon_weight& w : node.weights())
    if (w.dtype != TENON_DTYPE_F32) return sdk::refuse("its weights are plain f32 tables");
  for (const tenon_node& part : node.parts()) {
    if (Offer offer = accept_part(part); offer.refused()) return offer;
    if (part.in[0].cols != cols) return sdk::refuse("its parts have rows of different widths");
    if (part.op == TENON_OP_NORM && (norm_attr(part).group ? norm_attr(part).group : cols) != width)
      return sdk::refuse("its norms are over groups of different widths");
    if (part.op == TENON_OP_GATE && gate_group(part) != 1 && gate_group(part) % kFour)
      return sdk::refuse("%u columns share a gate: 1, or a multiple of 4", gate_group(part));
    if (part.op == TENON_OP_ENCODE && part.out[0].encoding == TENON_ENC_Q8_32 && width % 32)
      return sdk::refuse("a block of q8_32 would cross groups of %lld columns", static_cast<long long>(width));
  }
  return sdk::offer();
}

void read_attributes(const tenon_node& part, ChainStep& step) {
  switch (part.op) {
    case TENON_OP_NORM:
      step.op = ChainOp::kNorm;
      step.norm = {norm_attr(part).kind == TENON_NORM_RMS, norm_attr(part).eps};
      break;
    case TENON_OP_ADD:
      step.op = ChainOp::kAdd;
      break;
    case TENON_OP_MUL:
      step.op = ChainOp::kMul;
      break;
    case TENON_OP_SCALE:
      step.op = ChainOp::kScale, step.factor = static_cast<const tenon_scale_attr*>(part.attr)->factor;
      break;
    case TENON_OP_GLU: {
      const auto& attr = *static_cast<const tenon_glu_attr*>(part.attr);
      step.op = ChainOp::kGlu, step.glu = {attr.activation, attr.limit, attr.alpha};
      break;
    }
    case TENON_OP_GATE: {
      step.op = ChainOp::kGate;
      step.gate = {static_cast<const tenon_gate_attr*>(part.attr)->activation, int32_t(gate_group(part))};
      break;
    }
    default:
      step.op = ChainOp::kEncode, step.encoding = part.out[0].encoding;
  }
}

// Gives each statement its operands: the value just made, one that was kept, or an input. False: more values would have to
// be kept than the kernel can.
bool write_steps(const CompositeText& text, const sdk::Node& node, ChainPlan& plan) {
  if (text.statements.size() > kMaxChainSteps || text.n_in > kMaxChainOperands) return false;
  std::vector<int> saved(kSavedValues, -1);  // value in each place
  int current = -1;
  for (size_t i = 0; i < text.statements.size(); ++i) {
    const Statement& statement = text.statements[i];
    ChainStep& step = plan.step[i];
    read_attributes(node.parts()[i], step);
    const auto place_of = [&](int value) {
      if (value < text.n_in) return value;
      if (value == current) return kCurrent;
      const auto at = std::find(saved.begin(), saved.end(), value);
      return at == saved.end() ? kNothing : kSaved - int(at - saved.begin());
    };
    step.a = place_of(statement.in[0]);
    step.b = statement.in.size() > 1 ? place_of(statement.in[1]) : kNothing;
    if (step.a == kNothing || (statement.in.size() > 1 && step.b == kNothing)) return false;
    if (step.op == ChainOp::kGate && step.b < 0) return false;  // gates come from outside
    step.weight = statement.weight.empty() ? kNothing : statement.weight[0];
    const auto out = std::find(text.out.begin(), text.out.end(), statement.out);
    step.out = out == text.out.end() ? kNothing : int(out - text.out.begin());
    step.save = kNothing;
    if (step.op == ChainOp::kEncode) continue;  // leaves the value where it is
    current = statement.out;
    // Kept if somebody reads it behind another value that is made.
    for (size_t k = i + 1; k < text.statements.size(); ++k) {
      if (node.parts()[k].op == TENON_OP_ENCODE) continue;
      if (!text.is_read_after(current, int(k))) break;
      for (int& place : saved)
        if (place >= 0 && !text.is_read_after(place, int(i))) place = -1;
      const auto free = std::find(saved.begin(), saved.end(), -1);
      if (free == saved.end()) return false;
      *free = current, step.save = int(free - saved.begin());
      break;
    }
  }
  return true;
}

class RowChainKernel final : public CompositeKernel<ChainPlan> {
 public:
  explicit RowChainKernel(std::string_view text) : CompositeKernel(text, launch_row_chain) {}

 private:
  Offer check(const sdk::Node& node) const override {
    if (Offer offer = accept_chain(node); offer.refused()) return offer;
    if (ChainPlan plan; !write_steps(text(), node, plan)) return sdk::refuse("it keeps more values than the kernel can");
    return sdk::offer();
  }

  void fill(const sdk::Node& node, ChainPlan& plan) const override {
    write_steps(text(), node, plan);
    plan.n_step = int32_t(text().statements.size());
    plan.n_in = int32_t(node.in().size()), plan.n_out = int32_t(node.out().size());
    for (int32_t i = 0; i < plan.n_step; ++i)
      plan.has_activation |= plan.step[i].op == ChainOp::kGlu || plan.step[i].op == ChainOp::kGate;
    const int64_t width = norm_width(node);
    plan.width = width ? int32_t(width) : kPartWidth;
    plan.threads = norm_threads(plan.width);
  }
};

}  // namespace

void register_row_chains(sdk::Registrar& registrar) {
  const auto add = [&](const std::string& name, const std::string& text) {
    register_composite<RowChainKernel>(registrar, name, text);
  };
  for (const auto& sum : kSums)
    for (const auto& use : kUses) {
      const std::string text = std::string(sum.text) + use.text, name = sum.name;
      if (read_composite(text).statements.size() > 1) add(*use.name ? name + "_" + use.name : name, text);
    }
  for (const auto& other : kOthers) add(other.name, other.text);
}

}  // namespace tenon::cuda
