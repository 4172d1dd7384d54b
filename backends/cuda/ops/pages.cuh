// pages.cuh: where a position's K and V rows lie in a paged store of layout 0 (abi.h).
#pragma once

#include "cell_types.hpp"
#include "device.cuh"

namespace tenon::cuda {

struct Pages {
  uint8_t* base;
  const int32_t* table;
  int64_t page_bytes, value_offset;
  uint32_t table_stride;
  int32_t row_bytes_k, row_bytes_v;  // of one head
  // Page of a tile of 64 positions; -1 = not there.
  __device__ int32_t page(int32_t seq, int64_t tile) const { return table[int64_t(seq) * table_stride + tile]; }
  __device__ uint8_t* keys(int32_t page, int32_t head) const {
    return base + page * page_bytes + int64_t(head) * TENON_PAGE_TOKENS * row_bytes_k;
  }
  __device__ uint8_t* values(int32_t page, int32_t head) const {
    return base + page * page_bytes + value_offset + int64_t(head) * TENON_PAGE_TOKENS * row_bytes_v;
  }
};

// Of a latent store the values are the first columns of the keys.
inline Pages pages_of(const OpPlan& plan, const Launch& launch) {
  const tenon_store& store = launch.store(0);
  const tenon_store_type& type = plan.store;
  const bool is_latent = type.kind == TENON_STORE_LATENT;
  const int64_t key_bytes = cell_row_bytes(plan.codec[0], type.cols_k / type.heads);
  return {reinterpret_cast<uint8_t*>(store.base),
          array<int32_t>(store.table),
          store.page_bytes,
          is_latent ? 0 : store.value_offset,
          store.table_stride,
          int32_t(key_bytes),
          int32_t(is_latent ? key_bytes : cell_row_bytes(plan.codec[1], type.cols_v / type.heads))};
}

}  // namespace tenon::cuda
