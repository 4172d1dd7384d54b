// linear.cpp: decodes a weight's row once and multiplies it with every row of x. The order of the sum depends on the
// number of columns alone, so a row's result is the same in every batch and with every number of workers.
#include "linear.hpp"

#include <algorithm>

#include "q6.hpp"

namespace example {
namespace {

namespace sdk = tenon::sdk;

constexpr int kUnitCols = 16;  // output columns of a unit of work: one cache line of a row
constexpr int kLanes = 8;

// Eight running sums, then their sum in order. cols is a multiple of 32.
float dot(const float* a, const float* b, int64_t cols) {
  float lane[kLanes] = {};
  for (int64_t c = 0; c < cols; c += kLanes)
    for (int i = 0; i < kLanes; ++i) lane[i] += a[c + i] * b[c + i];
  float sum = 0;
  for (float part : lane) sum += part;
  return sum;
}

}  // namespace

sdk::Offer Linear::accept(const sdk::Node& node, const sdk::Device&) const {
  double bytes = 0;
  for (const tenon_weight& w : node.weights()) {
    if (w.dtype != dtype_)
      return sdk::refuse("serves example_q6, not %s", std::string(sdk::dtype_name(w.dtype)).c_str());
    if (w.n_expert > 0 || w.parts > 1) return sdk::refuse("serves plain weights, without experts or parts");
    bytes += static_cast<double>(w.rows) * static_cast<double>(w.row_bytes);
  }
  if (node.in()[0].groups > 1) return sdk::refuse("reads whole rows, not a strided view");
  for (const tenon_type& out : node.out())
    if (out.groups > 1) return sdk::refuse("writes whole rows, not a strided view");
  return sdk::offer().row_exact().cost(bytes);  // reads and emits f32, uses the weight as the file has it
}

void Linear::plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const {
  plan.partition = TENON_PART_OUT_COLS;
  plan.unit_cols = kUnitCols;
  plan.scratch = static_cast<uint64_t>(node.in()[0].cols) * sizeof(float);
}

void Linear::launch(const tenon_plan&, const sdk::Args& args, const sdk::Worker& worker) const {
  auto* row = worker.scratch<float>();
  for (uint32_t i = 0; i < args.table().n_weight; ++i) {
    const tenon_weight& w = args.weight(static_cast<int>(i));
    const tenon_view& y = args.out(static_cast<int>(i));
    const sdk::Range units = worker.share((w.rows + kUnitCols - 1) / kUnitCols);
    for (int64_t n = units.begin * kUnitCols; n < std::min(units.end * kUnitCols, w.rows); ++n) {
      decode_row(sdk::at<const uint8_t>(w.plane[0], n * w.row_bytes), w.cols, row);
      for (int64_t r = 0; r < args.rows(); ++r)
        sdk::row(y, r)[n] = dot(sdk::row<const float>(args.in(0), r), row, w.cols);
    }
  }
}

}  // namespace example
