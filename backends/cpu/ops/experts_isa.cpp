// expert_ffn and fold_slots for one instruction set.
#include "experts.hpp"
#include "ops_isa.hpp"
#include "product.hpp"
#include "transpose.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

// A launch of one worker.
struct Experts {
  const OpPlan* plan;
  const tenon_args* args;
  ExpertSizes at;
  uint8_t* scratch;
  sdk::ExpertGroups groups;
  int64_t width, hidden, cols, top_k;
  tenon_status status;

  float* part(int64_t offset) const { return reinterpret_cast<float*>(scratch + offset); }
};

tenon_view plain_view(float* data, int64_t rows, int64_t cols, int64_t row_floats) {
  tenon_view view = {};
  view.data = reinterpret_cast<tenon_addr>(data), view.rows = rows, view.cols = cols, view.groups = 1;
  view.row_bytes = row_floats * 4, view.group_bytes = view.row_bytes, view.encoding = TENON_ENC_F32;
  return view;
}

// y [rows][blocks × 16] = x × blocks [block, block + blocks) of a packed matrix.
void multiply_packed(Experts&, int, const tenon_weight& w, uint32_t dtype, const tenon_view& x, int64_t rows,
                     int64_t block, int64_t blocks, float* y, int64_t y_row) {
  const int64_t at = block * x.cols * kLanes;
  switch (dtype) {
    case TENON_DTYPE_F16:
      return multiply_blocks(&x, pointer_at<Half>(w.plane[0], at), rows, blocks, y, y_row);
    case TENON_DTYPE_BF16:
      return multiply_blocks(&x, pointer_at<Brain>(w.plane[0], at), rows, blocks, y, y_row);
    default:
      return multiply_blocks(&x, pointer_at<float>(w.plane[0], at), rows, blocks, y, y_row);
  }
}

// The same for a matrix in its file's layout. After a failure the worker goes on: the others wait for it at the
// barrier.
void multiply_decoded(Experts& e, int which, const tenon_weight& w, uint32_t, const tenon_view& x, int64_t rows,
                      int64_t block, int64_t blocks, float* y, int64_t y_row) {
  float* panel = e.part(e.at.panel);
  for (int64_t b = 0; b < blocks && e.status == TENON_OK; ++b) {
    const int64_t row = (block + b) * kLanes, n = smaller(kLanes, w.rows - row);
    e.status = e.plan->dtype[which]->decode(&w, row, n, e.part(e.at.decoded));
    pack_block(e.part(e.at.decoded), n, x.cols, panel + b * x.cols * kLanes);
  }
  multiply_blocks(&x, panel, rows, blocks, y, y_row);
}

using Multiply = void (*)(Experts&, int, const tenon_weight&, uint32_t, const tenon_view&, int64_t, int64_t, int64_t,
                          float*, int64_t);

void times(float* y, int64_t rows, int64_t cols, float factor) {
  if (factor == 1.0f) return;
  for (int64_t i = 0; i < rows * cols; i += kLanes) store(y + i, load(y + i) * splat(factor));
}

// Rows [first, first + n) of a group, where one lies alone or gathered behind one another.
tenon_view gathered(const Experts& e, const sdk::ExpertGroup& group, int64_t first, int64_t n) {
  const tenon_view& x = e.args->in[0];
  const int32_t* pair = e.groups.pair + group.begin + first;
  if (n == 1) return plain_view(f32_at(&x, pair[0] / e.top_k, 0), 1, e.width, e.width);
  float* rows = e.part(e.at.rows);
  for (int64_t i = 0; i < n; ++i)
    memcpy(rows + i * e.width, f32_at(&x, pair[i] / e.top_k, 0), size_t(e.width) * sizeof(float));
  return plain_view(rows, n, e.width, e.width);
}

// Blocks [first, end) of a group's hidden columns, into the workspace.
void hidden_blocks(Experts& e, const sdk::ExpertGroup& group, int64_t first, int64_t end, Multiply multiply_matrix,
                   float* hidden, int64_t hidden_row) {
  float *gate = e.part(e.at.gate), *up = e.part(e.at.up);
  const tenon_weight w[2] = {sdk::expert_matrix(e.args->weight[0], 0, group.expert),
                             sdk::expert_matrix(e.args->weight[1], 1, group.expert)};
  OpPlan act = *e.plan;
  act.partition = TENON_PART_REPLICATE;
  act.glu = {sizeof act.glu, e.plan->expert.activation, e.plan->expert.limit, e.plan->expert.alpha};
  for (int64_t r = 0; r < group.n; r += kExpertRows) {
    const int64_t n = smaller(kExpertRows, group.n - r);
    const tenon_view x = gathered(e, group, r, n);
    for (int64_t b = first; b < end; b += kExpertBlocks) {
      const int64_t blocks = smaller(kExpertBlocks, end - b), wide = blocks * kLanes;
      multiply_matrix(e, 0, w[0], e.plan->dtype_id[0], x, n, b, blocks, gate, wide);
      multiply_matrix(e, 1, w[1], e.plan->dtype_id[1], x, n, b, blocks, up, wide);
      times(gate, n, wide, sdk::expert_factor(e.args->weight[0], 0, group.expert));
      times(up, n, wide, sdk::expert_factor(e.args->weight[1], 1, group.expert));
      const int64_t cols = smaller(wide, e.hidden - b * kLanes);
      const tenon_view in[2] = {plain_view(gate, n, cols, wide), plain_view(up, n, cols, wide)};
      const tenon_view out = plain_view(hidden + (group.begin + r) * hidden_row + b * kLanes, n, cols, hidden_row);
      tenon_args one = {};
      one.struct_size = sizeof one, one.n_in = 2, one.n_out = 1, one.rows = uint32_t(n), one.in = in, one.out = &out;
      glu(&act, &one, nullptr);
    }
  }
}

// Output columns [c, c + n) of all rows from their slots [pair's place][wide].
void fold(const Experts& e, const float* slots, int64_t wide, int64_t c, int64_t n) {
  const tenon_view &share = e.args->in[2], &y = e.args->out[0];
  for (int64_t r = 0; r < e.args->rows; ++r) {
    const int32_t* place = e.groups.place + r * e.top_k;
    for (int64_t i = 0; i < n; i += kLanes) {
      const int64_t lanes = smaller(kLanes, n - i);
      if (e.plan->expert.combine) {
        for (int64_t s = 0; s < e.top_k; ++s)
          store_first(f32_at(&y, r, s * e.cols + c + i), load(slots + place[s] * wide + i), lanes);
        continue;
      }
      F sum = zero();
      for (int64_t s = 0; s < e.top_k; ++s)
        sum = fma(splat(*f32_at(&share, r, s)), load(slots + place[s] * wide + i), sum);
      store_first(f32_at(&y, r, c + i), sum, lanes);
    }
  }
}

void output_blocks(Experts& e, Span blocks, Multiply multiply_matrix, float* hidden, int64_t hidden_row) {
  float* slots = e.part(e.at.slots);
  const int64_t together = slot_blocks(e.groups.n_pair);
  for (int64_t b = blocks.begin; b < blocks.end; b += together) {
    const int64_t n = smaller(together, blocks.end - b), wide = n * kLanes;
    for (int64_t g = 0; g < e.groups.n_group; ++g) {
      const sdk::ExpertGroup& group = e.groups.group[g];
      const tenon_weight w = sdk::expert_matrix(e.args->weight[2], 2, group.expert);
      const tenon_view x = plain_view(hidden + group.begin * hidden_row, group.n, e.hidden, hidden_row);
      float* y = slots + group.begin * wide;
      multiply_matrix(e, 2, w, e.plan->dtype_id[2], x, group.n, b, n, y, wide);
      times(y, group.n, wide, sdk::expert_factor(e.args->weight[2], 2, group.expert));
    }
    fold(e, slots, wide, b * kLanes, smaller(wide, e.cols - b * kLanes));
  }
}

bool all_here(const Experts& e) {
  for (int64_t g = 0; g < e.groups.n_group; ++g)
    for (int which = 0; which < 3; ++which)
      if (!sdk::expert_matrix(e.args->weight[which], which, e.groups.group[g].expert).plane[0]) return false;
  return true;
}

template <bool decodes, Multiply multiply_matrix>
tenon_status expert_ffn(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  Experts e = {};
  e.plan = plan, e.args = args, e.scratch = static_cast<uint8_t*>(exec->scratch);
  e.at = expert_sizes(*plan, args->weight, plan->max_rows, decodes);
  e.width = args->weight[0].cols, e.hidden = args->weight[0].rows, e.cols = args->weight[2].rows;
  e.top_k = args->in[1].cols;
  // Every worker finds the same faults, so none waits for another.
  if (!sdk::group_experts(args->in[1], args->rows, args->weight[0].n_expert, e.scratch, &e.groups) || !all_here(e))
    return TENON_INVALID_ARGUMENT;
  float* hidden = reinterpret_cast<float*>(exec->workspace);
  const int64_t hidden_row = TENON_ALIGN64(e.hidden * 4) / 4;
  sdk::ExpertShare share(e.groups, (e.hidden + kLanes - 1) / kLanes, *exec);
  for (int64_t g = 0; g < e.groups.n_group; ++g) {
    int64_t first = 0, end = 0;
    share.next(e.groups.group[g], &first, &end);
    if (first < end) hidden_blocks(e, e.groups.group[g], first, end, multiply_matrix, hidden, hidden_row);
  }
  exec->barrier(exec->team);
  output_blocks(e, share_of((e.cols + kLanes - 1) / kLanes, exec), multiply_matrix, hidden, hidden_row);
  return e.status;
}

// Row after row: the same sum that expert_ffn ends with.
tenon_status fold_slots(const OpPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  const tenon_view &slots = args->in[0], &share = args->in[1], &y = args->out[0];
  const Span rows = rows_of(plan, args, exec);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = 0; c < y.cols; c += kLanes) {
      const int64_t n = smaller(kLanes, y.cols - c);
      F sum = zero();
      for (int64_t s = 0; s < share.cols; ++s)
        sum = fma(splat(*f32_at(&share, r, s)), load_first(f32_at(&slots, r, s * y.cols + c), n), sum);
      store_first(f32_at(&y, r, c), sum, n);
    }
  }
  return TENON_OK;
}

}  // namespace

const ExpertTable kExperts = {expert_ffn<false, multiply_packed>, expert_ffn<true, multiply_decoded>, fold_slots};

}  // namespace tenon::cpu::TENON_ISA
