// Composites of row-wise ops: the residual sum, the norm behind it and the encoding for the next product, row by row, so that a
// row stays in the nearest cache and a step has fewer launches. Each link is the plain op's own function on one row: the bits
// are those of the parts.
#include <cstring>
#include <memory>
#include <string>

#include "ops.hpp"

namespace tenon::cpu {
namespace {

constexpr int kMaxLinks = 4, kMaxValues = 8, kMaxWeights = 2;

// One op of a chain. Values are numbered: the group's inputs first, then each link's output.
struct Link {
  OpFunction OpTable::*run;
  int in[2];   // -1: none
  int weight;  // of the group; -1: none
};
struct Chain {
  const char* name;
  const char* pattern;
  int n_in, n_link, n_out;
  Link link[kMaxLinks];
  int out[2];  // values that the group gives
};

constexpr Chain kChains[] = {
    {"norm_add_norm_encode", "p = norm(y; v); a = add(x, p); n = norm(a; w); e = encode(n) -> a, e", 2, 4, 2,
     {{&OpTable::norm, {0, -1}, 0}, {&OpTable::add, {1, 2}, -1}, {&OpTable::norm, {3, -1}, 1}, {&OpTable::encode, {4, -1}, -1}},
     {3, 5}},
    {"add_norm_encode", "a = add(x, r); n = norm(a; w); e = encode(n) -> a, e", 2, 3, 2,
     {{&OpTable::add, {0, 1}, -1}, {&OpTable::norm, {2, -1}, 0}, {&OpTable::encode, {3, -1}, -1}},
     {2, 4}},
    {"norm_encode", "n = norm(x; w); e = encode(n) -> e", 1, 2, 1,
     {{&OpTable::norm, {0, -1}, 0}, {&OpTable::encode, {1, -1}, -1}},
     {2, -1}},
};

struct ChainPlan {
  OpPlan link[kMaxLinks];
  bool by_rows;
  int64_t cols;
};

bool whole_row_norm(const tenon_node& part) {
  const auto& attr = *static_cast<const tenon_norm_attr*>(part.attr);
  return (attr.group == 0 || attr.group == part.in[0].cols) && part.n_weight == 1 && part.weight[0].dtype == TENON_DTYPE_F32;
}

class ChainKernel final : public sdk::Kernel {
 public:
  ChainKernel(const Chain& chain, const OpTable& table) : chain_(chain), table_(table) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const int64_t cols = node.in()[0].cols;
    for (const tenon_node& part : node.parts()) {
      if (part.in[0].cols != cols) return sdk::refuse("links of different widths");
      if (part.op == TENON_OP_NORM && !whole_row_norm(part)) return sdk::refuse("serves norms of whole rows with an f32 weight");
    }
    for (const tenon_type& in : node.in())
      if (in.groups > 1 || in.encoding != TENON_ENC_F32) return sdk::refuse("reads plain f32 values");
    return sdk::offer().row_exact();
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    auto out = std::make_unique<ChainPlan>();
    std::memset(static_cast<void*>(out.get()), 0, sizeof *out);
    for (size_t i = 0; i < node.parts().size(); ++i) {
      const tenon_node& part = node.parts()[i];
      OpPlan& link = out->link[i];
      link.op = part.op, link.phase = part.phase, link.partition = TENON_PART_REPLICATE, link.max_rows = 1;
      if (part.op == TENON_OP_NORM) std::memcpy(&link.norm, part.attr, sizeof link.norm);
      if (part.op == TENON_OP_ENCODE) std::memcpy(&link.encode, part.attr, sizeof link.encode);
    }
    out->by_rows = !node.decode(), out->cols = node.in()[0].cols;
    plan.partition = out->by_rows ? TENON_PART_ROWS : TENON_PART_REPLICATE;
    plan.scratch = uint64_t(kMaxLinks * tenon_encoding_row_bytes(TENON_ENC_F32, out->cols));
    plan.impl = out.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const auto& p = *static_cast<const ChainPlan*>(plan.impl);
    const sdk::Range rows = p.by_rows ? worker.share(args.rows()) : sdk::Range{0, args.rows()};
    tenon_view values[kMaxValues];
    int64_t step[kMaxValues] = {};
    place_values(args, worker, p, values, step);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int i = 0; i < chain_.n_link; ++i) run_link(p, i, values, args, worker);
      for (int v = 0; v < chain_.n_in + chain_.n_link; ++v) values[v].data += uint64_t(step[v]);
    }
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<ChainPlan>(static_cast<ChainPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  // Views of this worker's first row, and how far the next row is: 0 for what stays in scratch memory.
  void place_values(const sdk::Args& args, const sdk::Worker& worker, const ChainPlan& p, tenon_view* values, int64_t* step) const {
    const int64_t begin = p.by_rows ? worker.share(args.rows()).begin : 0;
    const int64_t row_bytes = tenon_encoding_row_bytes(TENON_ENC_F32, p.cols);
    for (int v = 0; v < chain_.n_in + chain_.n_link; ++v) {
      const tenon_view* given = v < chain_.n_in ? &args.in(v) : nullptr;
      for (int o = 0; o < chain_.n_out; ++o)
        if (chain_.out[o] == v) given = &args.out(o);
      if (given) {
        values[v] = *given, step[v] = given->row_bytes;
        values[v].data += uint64_t(begin * given->row_bytes);
      } else {
        values[v] = {};
        values[v].data = reinterpret_cast<tenon_addr>(worker.scratch() + (v - chain_.n_in) * row_bytes);
        values[v].cols = p.cols, values[v].row_bytes = row_bytes, values[v].groups = 1, values[v].group_bytes = row_bytes;
        values[v].encoding = TENON_ENC_F32;
      }
      values[v].rows = 1;
    }
  }

  void run_link(const ChainPlan& p, int i, const tenon_view* values, const sdk::Args& args, const sdk::Worker& worker) const {
    const Link& link = chain_.link[i];
    const tenon_view in[2] = {values[link.in[0]], values[link.in[1] < 0 ? link.in[0] : link.in[1]]};
    tenon_args one = args.table();
    one.n_in = link.in[1] < 0 ? 1 : 2, one.n_out = 1, one.n_store = 0, one.rows = 1;
    one.n_weight = link.weight < 0 ? 0 : 1;
    one.in = in, one.out = &values[chain_.n_in + i];
    one.weight = link.weight < 0 ? nullptr : &args.weight(link.weight);
    if ((table_.*link.run)(&p.link[i], &one, &worker.table()) != TENON_OK)
      throw sdk::Error(TENON_INTERNAL, std::string("a link of ") + chain_.name + " failed");
  }

  const Chain& chain_;
  const OpTable& table_;
};

}  // namespace

void register_chains(sdk::Registrar& registrar) {
  for (const Chain& chain : kChains) {
    registrar.composite(chain.name, chain.pattern);
    for (int i = 0; i < kIsaCount; ++i) {
      const Isa isa = static_cast<Isa>(i);
      sdk::KernelInfo info;
      info.pattern = chain.pattern, info.numeric_class = "parts";
      info.feature = isa_features(isa), info.priority = isa_priority(isa);
      registrar.kernel<ChainKernel>(std::string("cpu.") + chain.name + "." + isa_name(isa), info, chain, op_table(isa));
    }
  }
}

}  // namespace tenon::cpu
