// attention.hpp: what both phases of attention share: the keys that a row sees, tiles of 64 keys as f32, and the
// running softmax. A tile is a page, so its borders are absolute key positions, whatever the chunking and the company
// of a row. For sources built once an instruction set.
#pragma once

#include "../simd/product.hpp"
#include "../simd/vec_math.hpp"
#include "pages.hpp"

namespace tenon::cpu::TENON_ISA {
namespace {

constexpr int64_t kTile = TENON_PAGE_TOKENS;

// Positions of the keys that a row sees, both included. Rows of a span follow one another in one step, so a span widens
// what its rows see and leaves no gap.
struct Sight {
  int64_t first, last;
};
TENON_INLINE Sight sight_of(const tenon_attention_attr* attr, const tenon_step* step, int64_t row) {
  const int32_t* index = pointer_at<int32_t>(step->index, 0);
  const Sight causal = {attr->window > 0 ? larger(0, index[row] - attr->window + 1) : 0, index[row]};
  const int32_t* span = attr->span_mask && step->span ? pointer_at<int32_t>(step->span, 0) : nullptr;
  if (!span || span[row] < 0) return causal;
  const int32_t* ends = pointer_at<int32_t>(step->row_start, *pointer_at<int32_t>(step->seq, row));
  int64_t begin = row, end = row;
  while (begin > ends[0] && span[begin - 1] == span[row]) --begin;
  while (end + 1 < ends[1] && span[end + 1] == span[row]) ++end;
  return {smaller(causal.first, index[begin]), index[end]};
}

// Of rows row … row + n - 1 one by one; answers what all of them see together.
TENON_INLINE Sight sights_of(const tenon_attention_attr* attr, const tenon_step* step, int64_t row, int64_t n,
                             Sight* out) {
  Sight all = sight_of(attr, step, row);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = sight_of(attr, step, row + i);
    all = {smaller(all.first, out[i].first), larger(all.last, out[i].last)};
  }
  return all;
}

// Where a head's values of a page begin, whose keys begin at `k`.
TENON_INLINE const uint8_t* values_of(const OpPlan* plan, const tenon_store* pages, const uint8_t* page,
                                      const uint8_t* k, int64_t kv_head) {
  if (plan->is_latent) return k;
  return page + pages->value_offset + kv_head * kTile * row_bytes_of(plan->dtype[1], plan->value_cols);
}

// `rows` rows of `cols` from a store's page as f32: in place where they are f32 already, else in `buffer`. Null when
// the dtype's record fails.
TENON_INLINE const float* as_f32(const OpPlan* plan, int which, const uint8_t* page, int64_t rows, int64_t cols,
                                 float* buffer) {
  const int64_t n = rows * cols;
  switch (plan->dtype_id[which]) {
    case TENON_DTYPE_F32:
      return reinterpret_cast<const float*>(page);
    case TENON_DTYPE_F16: {
      const uint16_t* p = reinterpret_cast<const uint16_t*>(page);
      for (int64_t i = 0; i < n; i += kLanes) store(buffer + i, load_f16(p + i));
      return buffer;
    }
    case TENON_DTYPE_BF16: {
      const uint16_t* p = reinterpret_cast<const uint16_t*>(page);
      for (int64_t i = 0; i < n; i += kLanes) store(buffer + i, load_bf16(p + i));
      return buffer;
    }
    default: {
      const tenon_dtype* record = plan->dtype[which];
      const tenon_weight w = row_as_weight(plan->dtype_id[which], page, row_bytes_of(record, cols), rows, cols);
      return record->decode(&w, 0, rows, buffer) == TENON_OK ? buffer : nullptr;
    }
  }
}

TENON_INLINE int64_t lanes_before(int64_t key, int64_t vector) {
  return larger(0, smaller(kLanes, key - vector * kLanes));
}

// The running softmax of one row over one tile. `score` holds raw products of vectors [v0, v1) of the tile's keys and
// leaves as weights, 0 for keys outside [lo, hi). Answers the factor for what was summed before.
struct Running {
  float top, total;
};
TENON_INLINE float soften(const tenon_attention_attr* attr, float* score, int64_t v0, int64_t v1, int64_t lo,
                          int64_t hi, Running* run) {
  if (hi <= lo) {  // wholly masked: the row stays as it is, bit for bit
    for (int64_t v = v0; v < v1; ++v) store(score + v * kLanes, zero());
    return 1.0f;
  }
  const F none = splat(-__builtin_inff()), factor = splat(attr->scale);
  F top = none;
  for (int64_t v = v0; v < v1; ++v) {
    F s = load(score + v * kLanes) * factor;
    if (attr->softcap > 0) s = splat(attr->softcap) * tanh(s / splat(attr->softcap));
    s = select(first(lanes_before(hi, v)), s, none);
    s = select(first(lanes_before(lo, v)), none, s);
    store(score + v * kLanes, s);
    top = max2(s, top);
  }
  const float tile_top = largest(top), next = tile_top > run->top ? tile_top : run->top;
  const F base = splat(next);
  F total = zero();
  for (int64_t v = v0; v < v1; ++v) {
    const F p = exp(load(score + v * kLanes) - base);
    store(score + v * kLanes, p);
    total = total + p;
  }
  float old[kLanes];
  store(old, exp(splat(run->top - next)));
  run->total = run->total * old[0] + sum(total);
  run->top = next;
  return old[0];
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA
