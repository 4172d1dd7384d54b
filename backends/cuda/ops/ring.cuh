// ring.cuh: bytes of global memory on their way into shared memory by the copy engine, without a register or a thread
// that waits. One lane asks for a copy; all lanes of the warp wait for its arrival.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

// What a copy's arrival is counted in: eight bytes of shared memory.
constexpr int kArrivalBytes = 8;

#ifdef TENON_CUDA_IS_EMULATED
using Shared = uint8_t*;
__device__ inline Shared shared_address(const void* p) { return const_cast<uint8_t*>(static_cast<const uint8_t*>(p)); }
template <typename T>
__device__ inline void keep_in_register(T&) {}
template <typename T>
__device__ inline T load_shared(Shared at) {
  return *reinterpret_cast<const T*>(at);
}
__device__ inline void prepare(Shared) {}
__device__ inline void arrivals_are_prepared() { __all_sync(kAll, 1); }
__device__ inline void copy_async(Shared to, const uint8_t* from, uint32_t bytes, Shared) { memcpy(to, from, bytes); }
__device__ inline void wait_for(Shared, uint32_t) { __all_sync(kAll, 1); }
__device__ inline void warp_sync() { __all_sync(kAll, 1); }
#else
// An address in shared memory.
using Shared = uint32_t;
__device__ __forceinline__ Shared shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
// The compiler computes it once and not again wherever it is used; nor earlier than here.
__device__ __forceinline__ void keep_in_register(uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void keep_in_register(int32_t& value) { asm volatile("" : "+r"(value)); }
// 2, 4 or 16 bytes.
template <typename T>
__device__ __forceinline__ T load_shared(Shared at) {
  T value;
  if constexpr (sizeof(T) == 16) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "r"(at));
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(at));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(at));
  } else {
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(at));
  }
  return value;
}
// One lane prepares what its warp waits for, then the warp calls arrivals_are_prepared().
__device__ __forceinline__ void prepare(Shared arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrival) : "memory");
}
__device__ __forceinline__ void arrivals_are_prepared() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncwarp();
}
// By one lane: addresses and bytes are multiples of 16. What was in `to` has been read by all, before a warp_sync().
__device__ __forceinline__ void copy_async(Shared to, const uint8_t* from, uint32_t bytes, Shared arrival) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrival), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(arrival)
               : "memory");
}
// Phases of an arrival are counted from 0; parity is the last bit of the one waited for.
__device__ __forceinline__ void wait_for(Shared arrival, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(arrival),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void warp_sync() { __syncwarp(); }
#endif

// Bytes that are read once, so they should push nothing out of the first cache.
__device__ __forceinline__ uint4 load_stream(const uint8_t* p) {
#ifdef TENON_CUDA_IS_EMULATED
  return *reinterpret_cast<const uint4*>(p);
#else
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p));
  return v;
#endif
}

// Where something lies, for code that reads it from either memory.
struct InShared {
  Shared at;
  template <typename T>
  __device__ __forceinline__ T get(int offset) const {
    return load_shared<T>(at + offset);
  }
};
struct InGlobal {
  const uint8_t* at;
  template <typename T>
  __device__ __forceinline__ T get(int offset) const {
    if constexpr (sizeof(T) == 16) return load_stream(at + offset);
    return *reinterpret_cast<const T*>(at + offset);
  }
};

}  // namespace tenon::cuda
