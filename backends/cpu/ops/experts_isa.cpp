// expert_ffn and fold_slots for one instruction set.
#include "../simd/expert_ffn.hpp"
#include "../simd/product.hpp"
#include "../simd/transpose.hpp"
#include "op_plan.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

tenon_status packed(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const auto multiply = [=](int which, const tenon_weight& w, const tenon_view& x, int64_t rows, int64_t block,
                            int64_t blocks, float* y, int64_t y_row, uint8_t*) {
    const int64_t at = block * x.cols * kLanes;
    switch (plan->dtype_id[which]) {
      case TENON_DTYPE_F16:
        return multiply_blocks(&x, pointer_at<Half>(w.plane[0], at), rows, blocks, y, y_row);
      case TENON_DTYPE_BF16:
        return multiply_blocks(&x, pointer_at<Brain>(w.plane[0], at), rows, blocks, y, y_row);
      default:
        return multiply_blocks(&x, pointer_at<float>(w.plane[0], at), rows, blocks, y, y_row);
    }
  };
  return ExpertRun(plan->expert, expert_sizes(plan->expert, args->weight, plan->max_rows, 0), *args, *exec, multiply)();
}

// Matrices in their file's layout, decoded on the way.
tenon_status decoded(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  tenon_status status = TENON_OK;
  const auto multiply = [&](int which, const tenon_weight& w, const tenon_view& x, int64_t rows, int64_t block,
                            int64_t blocks, float* y, int64_t y_row, uint8_t* own) {
    float *row = reinterpret_cast<float*>(own), *panel = row + kLanes * x.cols;
    // After a failure the worker goes on: the others wait for it at the barrier.
    for (int64_t b = 0; b < blocks && status == TENON_OK; ++b) {
      const int64_t first = (block + b) * kLanes, n = smaller(kLanes, w.rows - first);
      status = plan->dtype[which]->decode(&w, first, n, row);
      pack_block(row, n, x.cols, panel + b * x.cols * kLanes);
    }
    multiply_blocks(&x, panel, rows, blocks, y, y_row);
  };
  const int64_t own = decoded_experts_bytes(args->weight);
  const tenon_status run =
      ExpertRun(plan->expert, expert_sizes(plan->expert, args->weight, plan->max_rows, own), *args, *exec, multiply)();
  return run == TENON_OK ? status : run;
}

// The same sum that expert_ffn ends with.
tenon_status fold_slots(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view &slots = args->in[0], &share = args->in[1], &y = args->out[0];
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    sdk::fold_slots(
        share.cols, y.cols, [&](int64_t s) { return *f32_at(&share, r, s); },
        [&](int64_t s) { return f32_at(&slots, r, s * y.cols); }, f32_at(&y, r, 0));
  return TENON_OK;
}

}  // namespace

const ExpertTable kExperts = {packed, decoded, fold_slots};

}  // namespace tenon::cpu::TENON_ISA
