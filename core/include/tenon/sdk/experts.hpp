// experts.hpp: for kernels of expert_ffn on a CPU: the (row, slot) pairs of a step grouped by expert, so that each
// expert's weights are read once for all rows that go to it, and a worker's share of the groups. Plain structures and
// loops, fit for sources that are built once an instruction set.
#pragma once

#include <tenon/abi.h>

#include <cstdint>

namespace tenon::sdk {

// Where expert `id` of projection `which` (0 gate, 1 up, 2 down) begins; 0 when it is not here.
static inline tenon_addr expert_address(const tenon_weight& stack, int which, int64_t id) {
  if (stack.bank && stack.bank->address)
    return reinterpret_cast<const uint64_t*>(stack.bank->address)[which * static_cast<int64_t>(stack.n_expert) + id];
  return stack.plane[0] + static_cast<tenon_addr>(id * stack.expert_stride);
}
// `stacks`: gate, up and down.
static inline bool expert_is_here(const tenon_weight* stacks, int64_t id) {
  return expert_address(stacks[0], 0, id) && expert_address(stacks[1], 1, id) && expert_address(stacks[2], 2, id);
}

struct ExpertGroup {
  int32_t expert, begin, n;  // pairs pair[begin … begin + n)
};

// Of the experts that are here. Lives in memory of the caller, expert_groups_bytes() of it.
struct ExpertGroups {
  const int32_t* pair;   // row × top_k + slot, by expert and then ascending
  const int32_t* place;  // of each of the step's pairs in `pair`; -1: its expert is not here
  const ExpertGroup* group;
  int64_t n_pair, n_group;
};

static inline int64_t expert_groups_bytes(int64_t max_rows, int64_t top_k, int64_t n_expert) {
  const int64_t pairs = max_rows * top_k, groups = pairs < n_expert ? pairs : n_expert;
  return TENON_ALIGN64((2 * pairs + n_expert + 1) * 4 + groups * static_cast<int64_t>(sizeof(ExpertGroup)));
}

static inline int32_t expert_id(const tenon_view& ids, int64_t pair) {
  return reinterpret_cast<const int32_t*>(ids.data +
                                          static_cast<tenon_addr>(pair / ids.cols * ids.row_bytes))[pair % ids.cols];
}

// False when an id names no expert: unnamed_expert() says which.
static inline bool group_experts(const tenon_view& ids, int64_t rows, const tenon_weight* stacks, void* memory,
                                 ExpertGroups* out) {
  const int64_t n_expert = stacks[0].n_expert, pairs = rows * ids.cols;
  int32_t* pair = static_cast<int32_t*>(memory);
  int32_t* place = pair + pairs;
  int32_t* count = place + pairs;
  ExpertGroup* group = reinterpret_cast<ExpertGroup*>(count + n_expert + 1);
  for (int64_t e = 0; e <= n_expert; ++e) count[e] = 0;
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t id = expert_id(ids, p);
    if (id < 0 || id >= n_expert) return false;
    ++count[id];
  }
  int32_t at = 0;
  int64_t n_group = 0;
  for (int64_t e = 0; e < n_expert; ++e) {
    const int32_t n = count[e];
    count[e] = at;
    if (!n) continue;
    if (!expert_is_here(stacks, e)) {
      count[e] = -1;
      continue;
    }
    group[n_group++] = {static_cast<int32_t>(e), at, n};
    at += n;
  }
  for (int64_t p = 0; p < pairs; ++p) {
    int32_t& next = count[expert_id(ids, p)];
    place[p] = next < 0 ? -1 : next++;
    if (place[p] >= 0) pair[place[p]] = static_cast<int32_t>(p);
  }
  *out = {pair, place, group, at, n_group};
  return true;
}
// The first id that names no expert, where there is one; else 0.
static inline int32_t unnamed_expert(const tenon_view& ids, int64_t rows, int64_t n_expert) {
  for (int64_t p = 0; p < rows * ids.cols; ++p)
    if (const int32_t id = expert_id(ids, p); id < 0 || id >= n_expert) return id;
  return 0;
}

// Columns of a row's sum over its slots, in the arithmetic that docs/ops.md fixes for fold_slots: each product is rounded
// and then added, from 0 on, slot by slot. weight(s): a float; slot(s): `cols` columns, or null for one whose expert is
// not here. Where it is built with contraction off, every instruction set gives the same bits.
template <typename WeightOf, typename SlotOf>
static inline void fold_slots(int64_t n_slot, int64_t cols, const WeightOf& weight, const SlotOf& slot, float* out) {
  constexpr int64_t kTogether = 64;
  for (int64_t c = 0; c < cols; c += kTogether) {
    const int64_t n = cols - c < kTogether ? cols - c : kTogether;
    float sum[kTogether] = {};
    for (int64_t s = 0; s < n_slot; ++s) {
      const float* from = slot(s);
      if (!from) continue;
      from += c;
      const float by = weight(s);
      if (n == kTogether)
        for (int64_t i = 0; i < kTogether; ++i) sum[i] += by * from[i];
      else
        for (int64_t i = 0; i < n; ++i) sum[i] += by * from[i];
    }
    for (int64_t i = 0; i < n; ++i) out[c + i] = sum[i];
  }
}

// A worker's part of `blocks` equal blocks of columns in every group: about the same work for each, whole groups where
// that is possible.
class ExpertShare {
 public:
  ExpertShare(const ExpertGroups& groups, int64_t blocks, const tenon_exec& exec) : blocks_(blocks) {
    int64_t all = 0;
    for (int64_t g = 0; g < groups.n_group; ++g) all += blocks * cost(groups.group[g]);
    begin_ = TENON_SHARE(all, exec.worker, exec.n_workers), end_ = TENON_SHARE(all, exec.worker + 1, exec.n_workers);
  }
  // The blocks [*first, *end) of the next group, which are asked for in order.
  void next(const ExpertGroup& group, int64_t* first, int64_t* end) {
    *first = up_to(begin_, cost(group)), *end = up_to(end_, cost(group));
    passed_ += blocks_ * cost(group);
  }

 private:
  // Reading an expert's weights costs about as much as multiplying a few rows by them.
  static int64_t cost(const ExpertGroup& group) { return group.n + 3; }
  int64_t up_to(int64_t border, int64_t cost) const {
    const int64_t n = border <= passed_ ? 0 : (border - passed_ + cost - 1) / cost;
    return n < blocks_ ? n : blocks_;
  }
  int64_t blocks_, begin_, end_, passed_ = 0;
};

// That expert as a matrix of its own; plane[0] is 0 when it is not here.
static inline tenon_weight expert_matrix(const tenon_weight& stack, int which, int64_t id) {
  tenon_weight out = stack;
  out.n_expert = 0, out.expert_stride = 0, out.bank = nullptr;
  const tenon_addr begin = expert_address(stack, which, id);
  // All planes of an expert lie as far from the first expert's.
  for (int p = 3; p >= 0; --p)
    if (out.plane[p] || p == 0) out.plane[p] = begin ? out.plane[p] + (begin - stack.plane[0]) : 0;
  return out;
}
// The factor after the K fold of that matrix.
static inline float expert_factor(const tenon_weight& stack, int which, int64_t id) {
  if (!stack.bank || !stack.bank->macro) return 1.0f;
  return reinterpret_cast<const float*>(stack.bank->macro)[which * static_cast<int64_t>(stack.n_expert) + id];
}

}  // namespace tenon::sdk
