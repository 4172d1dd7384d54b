// expert_ffn.hpp: expert_ffn with f32 activations over any product of a matrix. For sources built once an instruction
// set.
//
//   1. Groups of slots by expert, made by every worker for itself.
//   2. Hidden rows: each worker takes a share of the hidden columns of all groups, blocks of 16.
//   3. Behind a barrier, each worker takes a share of the output columns, a few blocks at a time: all groups' slots,
//      then their sum in slot order.
#pragma once

#include <string.h>

#include "expert_sizes.hpp"
#include "glu.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

TENON_INLINE tenon_view plain_view(const float* data, int64_t rows, int64_t cols, int64_t row_floats) {
  tenon_view view = {};
  view.data = reinterpret_cast<tenon_addr>(data), view.rows = rows, view.cols = cols, view.groups = 1;
  view.row_bytes = row_floats * 4, view.group_bytes = view.row_bytes, view.encoding = TENON_ENC_F32;
  return view;
}

// A launch of one worker. Multiply: void (int which, const tenon_weight& matrix, const tenon_view& x, int64_t rows,
// int64_t block, int64_t blocks, float* y, int64_t y_row, uint8_t* own): y [rows][blocks × 16] = x × blocks [block,
// block + blocks) of projection `which`, lanes past the last row included.
template <typename Multiply>
class ExpertRun {
 public:
  ExpertRun(const tenon_expert_ffn_attr& attr, const ExpertSizes& at, const tenon_args& args, const tenon_exec& exec,
            Multiply& multiply)
      : attr_(attr),
        at_(at),
        args_(args),
        exec_(exec),
        multiply_(multiply),
        scratch_(static_cast<uint8_t*>(exec.scratch)),
        hidden_(reinterpret_cast<float*>(exec.workspace)),
        width_(args.weight[0].cols),
        hidden_cols_(args.weight[0].rows),
        hidden_row_(TENON_ALIGN64(hidden_cols_ * 4) / 4),
        cols_(args.weight[2].rows),
        top_k_(args.in[1].cols) {}

  // INVALID_ARGUMENT: an id names no expert.
  tenon_status operator()() {
    // Every worker finds the same fault, so none waits for another.
    if (!sdk::group_experts(args_.in[1], args_.rows, args_.weight, scratch_, &groups_)) return TENON_INVALID_ARGUMENT;
    sdk::ExpertShare share(groups_, (hidden_cols_ + kLanes - 1) / kLanes, exec_);
    for (int64_t g = 0; g < groups_.n_group; ++g) {
      int64_t first = 0, end = 0;
      share.next(groups_.group[g], &first, &end);
      if (first < end) hidden_blocks(groups_.group[g], first, end);
    }
    exec_.barrier(exec_.team);
    output_blocks(share_of((cols_ + kLanes - 1) / kLanes, &exec_));
    return TENON_OK;
  }

 private:
  float* part(int64_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }

  // The product, times the factor that stands behind it.
  void product(int which, const sdk::ExpertGroup& group, const tenon_view& x, int64_t rows, int64_t block,
               int64_t blocks, float* y, int64_t y_row) {
    const tenon_weight& stack = args_.weight[which];
    multiply_(which, sdk::expert_matrix(stack, which, group.expert), x, rows, block, blocks, y, y_row,
              scratch_ + at_.own);
    const float factor = sdk::expert_factor(stack, which, group.expert);
    if (factor == 1.0f) return;
    for (int64_t i = 0; i < rows * y_row; i += kLanes) store(y + i, load(y + i) * splat(factor));
  }

  // Rows [first, first + n) of a group, where one lies alone or gathered behind one another.
  tenon_view gathered(const sdk::ExpertGroup& group, int64_t first, int64_t n) const {
    const tenon_view& x = args_.in[0];
    const int32_t* pair = groups_.pair + group.begin + first;
    if (n == 1) return plain_view(f32_at(&x, pair[0] / top_k_, 0), 1, width_, width_);
    float* rows = part(at_.rows);
    for (int64_t i = 0; i < n; ++i)
      memcpy(rows + i * width_, f32_at(&x, pair[i] / top_k_, 0), size_t(width_) * sizeof(float));
    return plain_view(rows, n, width_, width_);
  }

  TENON_FLATTEN void activate(const float* gate, const float* up, int64_t wide, int64_t rows, int64_t cols,
                              float* out) const {
    with_glu(attr_.activation, attr_.limit, attr_.alpha, [&](auto act) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; c += kLanes)
          store_first(out + r * hidden_row_ + c, act(load(gate + r * wide + c), load(up + r * wide + c)), cols - c);
    });
  }

  // Blocks [first, end) of a group's hidden columns, into the workspace.
  void hidden_blocks(const sdk::ExpertGroup& group, int64_t first, int64_t end) {
    float *gate = part(at_.gate), *up = part(at_.up);
    for (int64_t r = 0; r < group.n; r += kExpertRows) {
      const int64_t n = smaller(kExpertRows, group.n - r);
      const tenon_view x = gathered(group, r, n);
      for (int64_t b = first; b < end; b += kExpertBlocks) {
        const int64_t blocks = smaller(kExpertBlocks, end - b), wide = blocks * kLanes;
        product(0, group, x, n, b, blocks, gate, wide);
        product(1, group, x, n, b, blocks, up, wide);
        activate(gate, up, wide, n, smaller(wide, hidden_cols_ - b * kLanes),
                 hidden_ + (group.begin + r) * hidden_row_ + b * kLanes);
      }
    }
  }

  // Output columns [c, c + n) of all rows from their slots [pair's place][wide]: the sums, or each slot by itself.
  void fold(const float* slots, int64_t wide, int64_t c, int64_t n) const {
    const tenon_view &share = args_.in[2], &y = args_.out[0];
    for (int64_t r = 0; r < int64_t(args_.rows); ++r) {
      const int32_t* place = groups_.place + r * top_k_;
      const auto slot = [&](int64_t s) { return place[s] < 0 ? nullptr : slots + place[s] * wide; };
      if (!attr_.combine) {
        sdk::fold_slots(top_k_, n, [&](int64_t s) { return *f32_at(&share, r, s); }, slot, f32_at(&y, r, c));
        continue;
      }
      for (int64_t s = 0; s < top_k_; ++s) {
        float* to = f32_at(&y, r, s * cols_ + c);
        if (const float* from = slot(s))
          memcpy(to, from, size_t(n) * sizeof(float));
        else
          memset(to, 0, size_t(n) * sizeof(float));
      }
    }
  }

  void output_blocks(Span blocks) {
    float* slots = part(at_.slots);
    const int64_t together = slot_blocks(groups_.n_pair);
    for (int64_t b = blocks.begin; b < blocks.end; b += together) {
      const int64_t n = smaller(together, blocks.end - b), wide = n * kLanes;
      for (int64_t g = 0; g < groups_.n_group; ++g) {
        const sdk::ExpertGroup& group = groups_.group[g];
        const tenon_view x = plain_view(hidden_ + group.begin * hidden_row_, group.n, hidden_cols_, hidden_row_);
        product(2, group, x, group.n, b, n, slots + group.begin * wide, wide);
      }
      fold(slots, wide, b * kLanes, smaller(wide, cols_ - b * kLanes));
    }
  }

  const tenon_expert_ffn_attr& attr_;
  const ExpertSizes at_;
  const tenon_args& args_;
  const tenon_exec& exec_;
  Multiply& multiply_;
  uint8_t* scratch_;
  float* hidden_;
  const int64_t width_, hidden_cols_, hidden_row_, cols_, top_k_;
  sdk::ExpertGroups groups_ = {};
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
