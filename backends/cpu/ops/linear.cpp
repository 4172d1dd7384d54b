// The products: float weights in a packed form, and any dtype through its decoder.
#include <algorithm>
#include <cstring>

#include "../simd/amx.hpp"
#include "ops.hpp"

namespace tenon::cpu {

const LinearTable& linear_table(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512::kLinear;
    case Isa::kAvx2:
      return avx2::kLinear;
    default:
      return portable::kLinear;
  }
}

namespace {

constexpr uint32_t kPairs16 = 0x63700002;  // as kRows16: [rows / 16][cols / 2][16][2]
constexpr uint64_t kTailPad = 64;

int64_t item(uint32_t dtype) { return dtype == TENON_DTYPE_F32 ? 4 : 2; }

// [rows / 16][cols / width][16][width] of items T.
template <typename T>
void pack_items(const sdk::PackSlice& slice, const tenon_weight& w, int64_t width) {
  const int64_t block_items = w.cols * 16;
  T* dst = slice.dst<T>();
  if (!dst) {
    slice.table->bytes = uint64_t((w.rows + 15) / 16 * block_items) * sizeof(T) + kTailPad;
    slice.table->align = 64, slice.table->tail_pad = kTailPad;
    return;
  }
  const int64_t end = slice.row0() + slice.rows();
  for (int64_t row = slice.row0(); row < end; row += 16) {
    T* block = dst + row / 16 * block_items;
    for (int64_t lane = 0; lane < 16; ++lane) {
      const auto* from = sdk::at<const uint8_t>(w.plane[0], (row + lane) * w.row_bytes);
      for (int64_t c = 0; c < w.cols; c += width)
        for (int64_t j = 0; j < width; ++j) {
          T value = 0;  // a file may place a plane at any address
          if (row + lane < end) std::memcpy(&value, from + (c + j) * int64_t(sizeof value), sizeof value);
          block[c * 16 + lane * width + j] = value;
        }
    }
  }
}

class FloatLinear : public sdk::Kernel {
 public:
  explicit FloatLinear(OpFunction run) : run_(run) {}

  void plan(const sdk::Node& node, const sdk::PlanRequest& request, tenon_plan& plan) const override {
    auto op = std::make_unique<OpPlan>();
    std::memset(static_cast<void*>(op.get()), 0, sizeof *op);
    op->phase = node.table().phase, op->op = node.op(), op->max_rows = request.max_rows;
    op->partition = TENON_PART_OUT_COLS, op->unit_cols = 16;
    for (size_t i = 0; i < node.weights().size(); ++i) {
      op->dtype_id[i] = node.weights()[i].dtype;
      op->dtype[i] = record_of(op->dtype_id[i]);
    }
    plan.partition = op->partition, plan.unit_cols = op->unit_cols;
    size(node, *op, plan);
    plan.impl = op.release();
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const tenon_status status = run_(static_cast<const OpPlan*>(plan.impl), &args.table(), &worker.table());
    if (status != TENON_OK) throw sdk::Error(status, "linear: a dtype's record failed to decode a row");
  }

  void drop(tenon_plan& plan) const override {
    std::unique_ptr<OpPlan>(static_cast<OpPlan*>(plan.impl)).reset();
    plan.impl = nullptr;
  }

 protected:
  virtual void size(const sdk::Node&, OpPlan&, tenon_plan&) const {}

  static std::string complaint_about(const sdk::Node& node) {
    if (node.weights().size() > 4) return "takes up to four weights";
    for (const tenon_weight& w : node.weights()) {
      if (w.parts > 1) return sdk::text("folds K in one piece, not in %u parts", w.parts);
      if (w.n_expert > 0 || w.bank) return "reads plain weights, not experts";
    }
    for (const tenon_type& out : node.out())
      if (out.groups > 1) return "writes whole rows, not a strided view";
    return {};
  }

 private:
  OpFunction run_;
};

class PackedLinear : public FloatLinear {
 public:
  using FloatLinear::FloatLinear;

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (std::string why = complaint_about(node); !why.empty()) return sdk::Offer::refusal(why);
    sdk::Offer offer;
    double bytes = 0;
    for (size_t i = 0; i < node.weights().size(); ++i) {
      const tenon_weight& w = node.weights()[i];
      if (!is_float(w.dtype)) return sdk::refuse("serves f32, f16 and bf16 weights, not %s", name_of(w.dtype).c_str());
      offer.packs(int(i), kRows16);
      bytes += double(w.rows) * double(w.cols) * double(item(w.dtype));
    }
    return offer.row_exact().cost(bytes);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override { pack_rows16(slice); }
};

class Bf16Linear : public PackedLinear {
 public:
  using PackedLinear::PackedLinear;

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (std::string why = complaint_about(node); !why.empty()) return sdk::Offer::refusal(why);
    const auto* attr = static_cast<const tenon_linear_attr*>(node.table().attr);
    if (attr && (attr->flags & TENON_WEIGHT_ROUTER)) return sdk::refuse("a router needs f32 activations");
    if (node.in()[0].cols % 2 != 0) return sdk::refuse("an odd number of columns");
    sdk::Offer offer;
    double bytes = 0;
    for (size_t i = 0; i < node.weights().size(); ++i) {
      const tenon_weight& w = node.weights()[i];
      if (w.dtype != TENON_DTYPE_BF16) return sdk::refuse("serves bf16 weights, not %s", name_of(w.dtype).c_str());
      offer.packs(int(i), kPairs16);
      bytes += double(w.rows) * double(w.cols) * 2;
    }
    return offer.reads(0, sdk::Encoding::kBf16).row_exact().cost(bytes);
  }

  void pack(const sdk::Node&, const sdk::PackSlice& slice) const override {
    pack_items<uint16_t>(slice, slice.src(), 2);
  }
};

// Bf16Linear's product in tiles, from the same packed form.
class AmxLinear final : public Bf16Linear {
 public:
  using Bf16Linear::Bf16Linear;

  sdk::Offer accept(const sdk::Node& node, const sdk::Device& device) const override {
    if (node.decode()) return sdk::refuse("serves prefill: tiles want rows");
    if (const int64_t k = node.in()[0].cols; k % amx::kStep)
      return sdk::refuse("%lld columns are no multiple of %lld", (long long)k, (long long)amx::kStep);
    return Bf16Linear::accept(node, device);
  }

 protected:
  void size(const sdk::Node&, OpPlan&, tenon_plan& plan) const override { plan.scratch = amx::kScratchBytes; }
};

class DecodedLinear final : public FloatLinear {
 public:
  using FloatLinear::FloatLinear;

  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    if (std::string why = complaint_about(node); !why.empty()) return sdk::Offer::refusal(why);
    double bytes = 0;
    for (const tenon_weight& w : node.weights()) {
      const tenon_dtype* record = record_of(w.dtype);
      if (!record || !record->decode) return sdk::refuse("dtype %u has no decoder", w.dtype);
      bytes += double(w.rows) * double(w.row_bytes);
    }
    return sdk::offer().row_exact().flag(TENON_OFFER_DEQUANTIZES).cost(bytes);
  }

 protected:
  // Sixteen decoded rows, then up to four blocks of them turned: as many as the second-level cache holds.
  void size(const sdk::Node& node, OpPlan& op, tenon_plan& plan) const override {
    const int64_t k = node.in()[0].cols;
    op.n_units = std::clamp<int64_t>((int64_t(1) << 20) / std::max<int64_t>(1, k * 64), 1, 4);
    plan.scratch = uint64_t(16 * k * (1 + op.n_units)) * sizeof(float);
  }
};

}  // namespace

void pack_rows16(const sdk::PackSlice& slice) {
  if (item(slice.src().dtype) == 4) {
    pack_items<uint32_t>(slice, slice.src(), 1);
  } else {
    pack_items<uint16_t>(slice, slice.src(), 1);
  }
}

void register_linear(sdk::Registrar& registrar) {
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    const LinearTable& table = linear_table(isa);
    const std::string tail = isa_name(isa);
    sdk::KernelInfo info;
    info.pattern = "linear", info.feature = isa_features(isa);
    const std::string packed = "cpu.linear.f32." + tail, decoded = "cpu.linear.decoded.f32." + tail;
    info.numeric_class = packed, info.priority = isa_priority(isa);
    registrar.kernel<PackedLinear>(packed, info, table.packed_f32);
    info.numeric_class = decoded, info.priority = isa_priority(isa) - 100;
    registrar.kernel<DecodedLinear>(decoded, info, table.decoded);
    if (!table.packed_bf16) continue;
    const std::string bf16 = "cpu.linear.bf16." + tail;
    info.numeric_class = bf16, info.priority = isa_priority(isa) + 5;
    registrar.kernel<Bf16Linear>(bf16, info, table.packed_bf16);
    if (!table.amx_bf16) continue;
    const std::string features = std::string(isa_features(isa)) + " amx_tile amx_bf16";
    info.numeric_class = "cpu.linear.bf16.amx", info.feature = features, info.priority = isa_priority(isa) + 6;
    registrar.kernel<AmxLinear>("cpu.linear.bf16.amx", info, table.amx_bf16);
  }
}

}  // namespace tenon::cpu
