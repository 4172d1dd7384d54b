// embed.cpp: rows of a packed table.
#include <cstring>
#include <limits>

#include "kernels.hpp"
#include "pack.hpp"

namespace tenon::block {

sdk::Offer Embed::accept(const sdk::Node& node, const sdk::Device&) const {
  if (node.op() != TENON_OP_EMBED || node.weights().size() != 1 || node.out().size() != 1) {
    return sdk::refuse("serves embed with one table");
  }
  const tenon_weight& table = node.weights()[0];
  const auto type = type_of_dtype(table.dtype);
  if (!is_layout(table.layout))
    return sdk::refuse("serves a table that a linear has packed; this one lies as in the file");
  if (!type || type_of_layout(table.layout) != *type) return sdk::refuse("the table's layout does not fit its dtype");
  if (node.out()[0].groups > 1 || node.out()[0].cols != table.cols) {
    return sdk::refuse("writes plain rows of the table's %lld columns", static_cast<long long>(table.cols));
  }
  if (node.in().size() > 1 && node.in()[1].groups > 1) return sdk::refuse("the overlay is a strided view");
  return sdk::offer().packs(0, table.layout).emits(0, sdk::Encoding::kF32).row_exact();
}

void Embed::pack(const sdk::Node&, const sdk::PackSlice& slice) const { pack_weight(slice); }

void Embed::plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const {
  // impl carries the factor: it points into no memory, so there is nothing to drop.
  const float scale = node.table().attr ? node.attr<tenon_embed_attr>().scale : 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof bits);
  plan.impl = reinterpret_cast<void*>(static_cast<uintptr_t>(bits));
  plan.partition = node.decode() ? TENON_PART_REPLICATE : TENON_PART_ROWS;
  plan.workspace = plan.scratch = 0;
}

void Embed::launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const {
  const uint32_t bits = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(plan.impl));
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  const tenon_weight& table = args.weight(0);
  const int32_t* overlay_row =
      args.table().n_in > 1 && args.step().overlay ? sdk::at<int32_t>(args.step().overlay) : nullptr;
  const bool all = plan.partition == TENON_PART_REPLICATE;
  const sdk::Range rows = all ? sdk::Range{0, args.rows()} : worker.share(args.rows());
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = sdk::row(args.out(0), r);
    if (overlay_row && overlay_row[r] >= 0) {
      std::memcpy(out, sdk::row(args.in(1), overlay_row[r]), static_cast<size_t>(table.cols) * sizeof(float));
      continue;
    }
    const int32_t token = *sdk::row<int32_t>(args.in(0), r);
    if (token < 0 || token >= table.rows) {
      for (int64_t c = 0; c < table.cols; ++c) out[c] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    unpack_row(type_of_layout(table.layout), sdk::at<const uint8_t>(table.plane[0]), table.cols, token, scale, out);
  }
}

}  // namespace tenon::block
