// pages.cuh: where a position's K and V rows lie in a paged store of layout 0 (abi.h).
#pragma once

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

inline int32_t float_bytes(Codec codec) { return codec == Codec::kF32 ? 4 : 2; }
inline Pages pages_of(const OpPlan& plan, const Launch& launch) {
  const tenon_store& store = launch.store(0);
  const tenon_store_type& type = plan.store;
  return {reinterpret_cast<uint8_t*>(store.base),
          array<int32_t>(store.table),
          store.page_bytes,
          store.value_offset,
          store.table_stride,
          int32_t(type.cols_k / type.heads) * float_bytes(plan.codec[0]),
          int32_t(type.cols_v / type.heads) * float_bytes(plan.codec[1])};
}

}  // namespace tenon::cuda
