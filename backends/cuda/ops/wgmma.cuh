// wgmma.cuh: products of bf16 by the four warps of a warp group, summed in f32, and the copies that bring their operands.
//
// A is 64 × 16, in registers or in shared memory; B is 16 × 64 or 16 × 128, in shared memory: its columns are rows of x.
// Tiles in shared memory have rows of 64 numbers, 128 bytes, and begin at multiples of 1024 bytes; the 16 bytes with
// number c of row r lie at place c ^ (r % 8), so that neither copies nor products meet in one bank. With warp w of the
// group, g = lane / 4 and t = lane % 4, a lane has
//   of A   register 0: row 16w + g, columns 2t and 2t + 1; 1: row 16w + g + 8; 2 and 3: the same rows, columns 2t + 8 …
//   of C   4j + i: row 16w + g + 8 (i / 2), column 8j + 2t + i % 2
#pragma once

#include "ring.cuh"

namespace tenon::cuda {

constexpr int kTileBytes = 128;  // of a row in shared memory: 64 numbers
constexpr uint32_t kTileAlign = 1024;

// Place of the 16 bytes with number `piece` of a row.
__device__ __forceinline__ uint32_t tile_place(int row, int piece) {
  return uint32_t(row * kTileBytes + ((piece ^ (row & 7)) << 4));
}

#ifdef TENON_CUDA_IS_EMULATED

__device__ inline void wgmma_begin() {}
__device__ inline void wgmma_commit() {}
template <int pending>
__device__ inline void wgmma_wait() {}
__device__ inline void publish_to_wgmma() {}

__device__ inline float tile_number(const uint8_t* tile, int row, int column) {
  return bf16_to_float(reinterpret_cast<const uint16_t*>(tile + tile_place(row, column / 8))[column % 8]);
}
// One row of A against the columns of B that this lane has: every second entry of c from `first` on.
template <int columns>
__device__ inline void emulated_row(float* c, int first, const float (&a)[16], const uint8_t* b, int step) {
  const int t = int(threadIdx.x % 4);
  for (int j = 0; j < columns / 8; ++j)
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 16; ++k)
        c[4 * j + first + i] = fmaf(a[k], tile_number(b, 8 * j + 2 * t + i, 16 * step + k), c[4 * j + first + i]);
}
// c += A B for columns 16 step … of the tiles.
template <int columns>
__device__ inline void multiply(float* c, const uint32_t (&a)[4], const uint8_t* b, int step) {
  static uint32_t left[32][kWarp][4];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int i = 0; i < 4; ++i) left[warp][lane][i] = a[i];
  __all_sync(kAll, 1);
  for (int half = 0; half < 2; ++half) {
    float row[16];
    for (unsigned k = 0; k < 16; ++k)
      row[k] = bf16_to_float(uint16_t(left[warp][lane / 4 * 4 + k % 8 / 2][half + int(k / 8) * 2] >> 16 * (k % 2)));
    emulated_row<columns>(c, 2 * half, row, b, step);
  }
  __all_sync(kAll, 1);
}
template <int columns>
__device__ inline void multiply(float* c, const uint8_t* a, const uint8_t* b, int step) {
  for (int half = 0; half < 2; ++half) {
    float row[16];
    for (int k = 0; k < 16; ++k)
      row[k] = tile_number(a, int(threadIdx.x % 128 / kWarp * 16 + threadIdx.x % kWarp / 4) + 8 * half, 16 * step + k);
    emulated_row<columns>(c, 2 * half, row, b, step);
  }
}

__device__ inline void copy_async(uint8_t* to, const void* from, int bytes) {
  memset(to, 0, 16);
  memcpy(to, from, size_t(bytes));
}
__device__ inline void copy_commit() {}
template <int pending>
__device__ inline void copy_wait() {}

__device__ inline uint32_t pack_bf16(float low, float high) { return float_to_bf16(low) | uint32_t(float_to_bf16(high)) << 16; }

#else

// wgmma needs code for the very GPU; where there is none, accept() refuses before anything is launched.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TENON_SM90(...) __VA_ARGS__
#else
#define TENON_SM90(...) __trap()
#endif

// Before the first of some products: registers written until here are theirs.
__device__ __forceinline__ void wgmma_begin() { TENON_SM90(asm volatile("wgmma.fence.sync.aligned;" ::: "memory")); }
__device__ __forceinline__ void wgmma_commit() { TENON_SM90(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")); }
// Until all but the last `pending` groups are done.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  TENON_SM90(asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory"));
}
// What this thread wrote to shared memory can be read by products behind the next barrier.
__device__ __forceinline__ void publish_to_wgmma() { TENON_SM90(asm volatile("fence.proxy.async.shared::cta;" ::: "memory")); }

// A tile's descriptor: 128-byte rows, eight of them 1024 bytes apart from the next eight; from column 16 step on.
__device__ __forceinline__ uint64_t tile_descriptor(const uint8_t* tile, int step) {
  constexpr uint64_t kRowsOf128 = uint64_t(1) << 62, kEightRows = uint64_t(1024 >> 4) << 32, kUnused = uint64_t(1) << 16;
  return kRowsOf128 | kEightRows | kUnused | ((shared_address(tile) + uint32_t(step) * 32) >> 4 & 0x3fff);
}

template <int columns>
__device__ void wgmma(float* c, const uint32_t (&a)[4], uint64_t b);
template <int columns>
__device__ void wgmma(float* c, uint64_t a, uint64_t b);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <>
__device__ __forceinline__ void wgmma<64>(float* c, const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <>
__device__ __forceinline__ void wgmma<64>(float* c, uint64_t a, uint64_t b) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0;}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(a), "l"(b));
}
template <>
__device__ __forceinline__ void wgmma<128>(float* c, const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 0;}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
        "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
        "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
        "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <>
__device__ __forceinline__ void wgmma<128>(float* c, uint64_t a, uint64_t b) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
        "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
        "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
        "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(a), "l"(b));
}
#else
template <int columns>
__device__ void wgmma(float*, const uint32_t (&)[4], uint64_t) {}
template <int columns>
__device__ void wgmma(float*, uint64_t, uint64_t) {}
#endif

// c += A B for columns 16 step … of the tiles.
template <int columns>
__device__ __forceinline__ void multiply(float* c, const uint32_t (&a)[4], const uint8_t* b, int step) {
  wgmma<columns>(c, a, tile_descriptor(b, step));
}
template <int columns>
__device__ __forceinline__ void multiply(float* c, const uint8_t* a, const uint8_t* b, int step) {
  wgmma<columns>(c, tile_descriptor(a, step), tile_descriptor(b, step));
}

// Brings 16 bytes, of which those beyond `bytes` are 0 and not read.
__device__ __forceinline__ void copy_async(uint8_t* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Two numbers rounded to the nearest bf16, ties to even.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

#endif

// Shared memory whose size the launch gives, from a multiple of kTileAlign on; ask for that much more.
__device__ __forceinline__ uint8_t* aligned_memory(uint8_t* memory) {
  return memory + (kTileAlign - uint32_t(reinterpret_cast<uint64_t>(memory)) % kTileAlign) % kTileAlign;
}

}  // namespace tenon::cuda
