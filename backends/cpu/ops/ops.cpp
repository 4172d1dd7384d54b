// The table of ops and the kernel class that serves its rows.
#include "ops.hpp"

#include <algorithm>
#include <cstring>

#include "op_entry.hpp"

namespace tenon::cpu {

const OpTable& op_table(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512::kOps;
    case Isa::kAvx2:
      return avx2::kOps;
    default:
      return portable::kOps;
  }
}

namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }

sdk::Offer accept_any(const sdk::Node&) { return sdk::offer(); }

sdk::Offer accept_embed(const sdk::Node& node) {
  const tenon_weight& table = node.weights()[0];
  const tenon_dtype* record = record_of(table.dtype);
  if (!is_float(table.dtype) && (!record || !record->decode))
    return sdk::refuse("dtype %u of the table has no decoder", table.dtype);
  if (node.out()[0].groups > 1) return sdk::refuse("writes whole rows, not a strided view");
  return sdk::offer().cost(double(table.cols));
}

sdk::Offer accept_encode(const sdk::Node& node) {
  const uint32_t encoding = node.attr<tenon_encode_attr>().encoding;
  if (encoding != TENON_ENC_F32 && encoding != TENON_ENC_BF16 && encoding != TENON_ENC_F16 &&
      encoding != TENON_ENC_Q8_32)
    return sdk::refuse("encodes to f32, bf16, f16 and q8_32, not to encoding %u", encoding);
  if (encoding == TENON_ENC_Q8_32 && node.in()[0].cols % 32 != 0)
    return sdk::refuse("%lld columns are no whole number of blocks of 32", wide(node.in()[0].cols));
  return sdk::offer().emits(0, sdk::Encoding(encoding));
}

sdk::Offer accept_norm(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_norm_attr>();
  const int64_t cols = node.in()[0].cols, group = attr.group ? attr.group : cols;
  if (attr.kind != TENON_NORM_RMS && attr.kind != TENON_NORM_L2) return sdk::refuse("norm kind %u", attr.kind);
  if (cols % group != 0)
    return sdk::refuse("%lld columns are no whole number of groups of %lld", wide(cols), wide(group));
  if (node.weights().empty()) return sdk::offer();
  const tenon_weight& w = node.weights()[0];
  if (!is_float(w.dtype)) return sdk::refuse("the weight is f32, f16 or bf16, not %s", name_of(w.dtype).c_str());
  if (w.rows * w.cols != group)
    return sdk::refuse("the weight has %lld entries, a group %lld", wide(w.rows * w.cols), wide(group));
  return sdk::offer();
}

sdk::Offer accept_glu(const sdk::Node& node) {
  const uint32_t activation = node.attr<tenon_glu_attr>().activation;
  if (activation > TENON_ACT_SWIGLU_OAI) return sdk::refuse("activation %u", activation);
  return sdk::offer();
}

sdk::Offer accept_gate(const sdk::Node& node) {
  const auto& attr = node.attr<tenon_gate_attr>();
  const int64_t cols = node.in()[0].cols, group = attr.group ? attr.group : cols;
  if (attr.activation != TENON_ACT_SIGMOID && attr.activation != TENON_ACT_SILU)
    return sdk::refuse("activation %u: only sigmoid and silu", attr.activation);
  if (cols % group != 0 || node.in()[1].cols != cols / group)
    return sdk::refuse("%lld columns, groups of %lld and %lld gates do not fit", wide(cols), wide(group),
                       wide(node.in()[1].cols));
  return sdk::offer();
}

// Two values, or a value and a weight: of one number (mul alone) or one a column.
sdk::Offer accept_pair(const sdk::Node& node) {
  if (node.weights().empty()) return sdk::offer();
  const tenon_weight& w = node.weights()[0];
  if (!is_float(w.dtype)) return sdk::refuse("the weight is f32, f16 or bf16, not %s", name_of(w.dtype).c_str());
  const bool is_one = w.rows * w.cols == 1 && node.op() == TENON_OP_MUL;
  if (!is_one && w.rows * w.cols != node.in()[0].cols)
    return sdk::refuse("the weight has %lld entries: 1 or %lld expected", wide(w.rows * w.cols),
                       wide(node.in()[0].cols));
  return sdk::offer();
}

sdk::Offer accept_logits_tail(const sdk::Node& node) {
  if (!node.weights().empty() && node.weights()[0].dtype != TENON_DTYPE_I32)
    return sdk::refuse("ids are i32, not %s", name_of(node.weights()[0].dtype).c_str());
  return sdk::offer();
}

// Row-wise: every worker computes all rows of a decode step, and its share of the rows of a prompt.
void plan_rows(const sdk::Node& node, OpPlan& op, uint64_t&) {
  op.partition = node.decode() ? TENON_PART_REPLICATE : TENON_PART_ROWS;
}
void plan_embed(const sdk::Node& node, OpPlan& op, uint64_t& scratch) {
  plan_rows(node, op, scratch);
  op.dtype[0] = record_of(node.weights()[0].dtype);
}
void plan_norm(const sdk::Node& node, OpPlan& op, uint64_t& scratch) {
  plan_rows(node, op, scratch);
  const int64_t cols = node.in()[0].cols;
  if (!node.decode() || op.norm.group == 0 || op.norm.group == cols) return;
  op.partition = TENON_PART_HEADS, op.n_units = cols / op.norm.group;
}
// By columns, in both phases: each worker goes on with the columns that its product gave it.
void plan_cols(const sdk::Node&, OpPlan& op, uint64_t&) { op.partition = TENON_PART_OUT_COLS, op.unit_cols = 16; }

constexpr OpEntry row_entry(const char* name, OpFunction OpTable::*run, AcceptFunction accept, size_t attr_bytes,
                            bool same_everywhere, PlanFunction plan = plan_rows, const char* complaint = "") {
  return {name, run, run, accept, plan, attr_bytes, same_everywhere, complaint};
}

const OpEntry kEntries[] = {
    row_entry("embed", &OpTable::embed, accept_embed, sizeof(tenon_embed_attr), true, plan_embed,
              "a token or an overlay row lies outside its table"),
    row_entry("encode", &OpTable::encode, accept_encode, sizeof(tenon_encode_attr), true),
    row_entry("norm", &OpTable::norm, accept_norm, sizeof(tenon_norm_attr), false, plan_norm),
    row_entry("add", &OpTable::add, accept_pair, 0, true),
    row_entry("mul", &OpTable::mul, accept_pair, 0, true),
    row_entry("scale", &OpTable::scale, accept_any, sizeof(tenon_scale_attr), true),
    row_entry("softcap", &OpTable::softcap, accept_any, sizeof(tenon_scale_attr), false),
    row_entry("concat", &OpTable::concat, accept_any, 0, true),
    row_entry("select_rows", &OpTable::select_rows, accept_any, 0, true, plan_rows,
              "an output row shows a row that the step does not have"),
    row_entry("glu", &OpTable::glu, accept_glu, sizeof(tenon_glu_attr), false, plan_cols),
    row_entry("gate", &OpTable::gate, accept_gate, sizeof(tenon_gate_attr), false, plan_cols),
    row_entry("logits_tail", &OpTable::logits_tail, accept_logits_tail, sizeof(tenon_scale_attr), false, plan_cols),
    row_entry("rope", &OpTable::rope, accept_rope, sizeof(tenon_rope_attr), false, plan_rope),
    row_entry("kv_write", &OpTable::kv_write, accept_kv_write, sizeof(tenon_kv_write_attr), true, plan_kv_write,
              "a row's position has no page"),
    {"attention", &OpTable::attention_decode, &OpTable::attention_prefill, accept_attention, plan_attention,
     sizeof(tenon_attention_attr), false, "a key that a row sees has no page"},
    {"latent_attention", &OpTable::attention_decode, &OpTable::attention_prefill, accept_latent_attention,
     plan_latent_attention, sizeof(tenon_latent_attention_attr), false, "a key that a row sees has no page"},
};

class OpKernel final : public sdk::Kernel {
 public:
  OpKernel(const OpEntry& entry, const OpTable& table) : entry_(entry), table_(table) {}

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    for (const tenon_weight& w : node.weights())
      if (w.parts > 1 || w.n_expert > 0) return sdk::refuse("reads plain weights, without parts or experts");
    return entry_.accept(node).row_exact();
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto op = std::make_unique<OpPlan>();
    std::memset(static_cast<void*>(op.get()), 0, sizeof *op);
    if (const void* attr = node.table().attr) {
      const uint32_t bytes = *static_cast<const uint32_t*>(attr);
      std::memcpy(&op->embed, attr, std::min<size_t>(bytes, entry_.attr_bytes));
    }
    op->phase = node.table().phase, op->op = node.op(), op->max_rows = request.max_rows;
    uint64_t scratch = 0;
    entry_.plan(node, *op, scratch);
    plan.partition = op->partition, plan.n_units = op->n_units, plan.unit_cols = op->unit_cols;
    plan.scratch = scratch;
    plan.impl = op.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const auto* op = static_cast<const OpPlan*>(plan.impl);
    const OpFunction run = table_.*(op->phase == TENON_PHASE_DECODE ? entry_.decode : entry_.prefill);
    const tenon_status status = run(op, &args.table(), &worker.table());
    if (status == TENON_OK) return;
    if (status == TENON_INVALID_ARGUMENT) throw sdk::Error(status, std::string(entry_.name) + ": " + entry_.complaint);
    throw sdk::Error(status, std::string(entry_.name) + ": a dtype's record failed on a row");
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<OpPlan>(static_cast<OpPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 private:
  const OpEntry& entry_;
  const OpTable& table_;
};

}  // namespace

void register_ops(sdk::Registrar& registrar) {
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    for (const OpEntry& entry : kEntries) {
      const std::string base = std::string("cpu.") + entry.name, full = base + "." + isa_name(isa);
      sdk::KernelInfo info;
      info.pattern = entry.name, info.feature = isa_features(isa), info.priority = isa_priority(isa);
      info.numeric_class = entry.same_everywhere ? base : full;
      registrar.kernel<OpKernel>(full, info, entry, op_table(isa));
    }
  }
}

}  // namespace tenon::cpu
