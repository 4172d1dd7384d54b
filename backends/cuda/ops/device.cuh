// device.cuh: what the device code of every op shares: views, live rows, number formats, fixed-order sums, launches.
//
// Contraction is off for all of it; a fused multiply-add stands where fmaf() is written, so that two kernels that share
// a function agree to the bit.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <tenon/abi.h>

#include "../runtime.hpp"
#include "ops.hpp"

namespace tenon::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;

// An f32 value: element (r, c) as tenon_view says.
struct View {
  uint8_t* data;
  int64_t row_bytes, group_bytes;
  int32_t cols, width;  // columns; columns of a group
  __device__ float* at(int64_t r, int32_t c) const {
    uint8_t* row = data + r * row_bytes;
    if (width == cols) return reinterpret_cast<float*>(row) + c;
    const int32_t group = c / width;
    return reinterpret_cast<float*>(row + group * group_bytes) + (c - group * width);
  }
};
inline View view_of(const tenon_view& v) {
  const int64_t groups = v.groups > 1 ? v.groups : 1;
  return {reinterpret_cast<uint8_t*>(v.data), v.row_bytes, v.group_bytes, int32_t(v.cols), int32_t(v.cols / groups)};
}
// True if four columns from any multiple of four on lie together at an address that a vector load takes.
inline bool has_vectors(const View& v) {
  return reinterpret_cast<uint64_t>(v.data) % 16 == 0 && v.row_bytes % 16 == 0 && v.width % 8 == 0 &&
         (v.width == v.cols || v.group_bytes % 16 == 0);
}

// Rows that exist: a number in device memory, never more than the launch was made for.
struct Live {
  const uint32_t* count;
  uint32_t bound;
  __device__ uint32_t get() const { return *count < bound ? *count : bound; }
};
inline Live live_rows(const OpPlan& plan, const Launch& launch) {
  const tenon_step& step = launch.step();
  const tenon_addr count = plan.domain == TENON_DOMAIN_OUTPUT_ROWS ? step.n_outputs
                           : plan.domain == TENON_DOMAIN_SEQUENCES ? step.n_seqs
                                                                   : step.n_rows;
  return {reinterpret_cast<const uint32_t*>(count), launch.rows()};
}

template <typename T>
const T* array(tenon_addr address) {
  return reinterpret_cast<const T*>(address);
}

__device__ inline float half_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline uint16_t float_to_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
__device__ inline float bf16_to_float(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }
__device__ inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if (isnan(value)) return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
// A number whose bits say "not a number": what rows get that nothing valid can fill.
__device__ inline float quiet_nan() { return __uint_as_float(0x7fc00000u); }

// Element i of a small vector of floats, such as a norm's weight.
__device__ inline float load_float(Codec codec, const void* data, int64_t i) {
  if (codec == Codec::kF32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return codec == Codec::kF16 ? half_to_float(bits) : bf16_to_float(bits);
}

// Sum and maximum over a warp by a butterfly: every lane gets the same bits, whatever the launch.
__device__ inline float warp_sum(float value) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}
__device__ inline float warp_max(float value) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAll, value, step));
  return value;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float activate(uint32_t activation, float x) {
  switch (activation) {
    case TENON_ACT_SILU:
      return x / (1.0f + expf(-x));
    case TENON_ACT_SIGMOID:
      return sigmoid(x);
    case TENON_ACT_GELU_TANH:
      // 0.5 (1 + tanh u) = sigmoid(2u), which loses no digits where tanh is close to -1.
      return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    default:
      return x;
  }
}

inline unsigned blocks_for(int64_t n, int64_t each) { return unsigned((n + each - 1) / each); }
// Rows go to the grid's second dimension, which is short; kernels stride over what is left.
inline unsigned row_blocks(int64_t rows) { return unsigned(rows < 32768 ? rows : 32768); }

// A kernel may begin before the one in front of it on the stream has ended. Until it has waited, it reads weights alone and
// writes nothing; every thread of it waits, or what comes behind could begin too early.
__device__ inline void wait_for_launch_before() {
#if defined(TENON_CUDA_IS_EMULATED)
  emulator::wait_for_launch_before();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the launch behind this one begin and wait, once every block is here or has ended.
__device__ inline void let_next_launch_begin() {
#if !defined(TENON_CUDA_IS_EMULATED) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Asks for a line of weights, to be in L2 when it is read.
__device__ inline void prefetch_line(const void* line) {
#if !defined(TENON_CUDA_IS_EMULATED)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#else
  (void)line;
#endif
}

// Shared memory whose size a launch gives.
#ifdef TENON_CUDA_IS_EMULATED
#define TENON_SHARED_MEMORY(name) uint8_t* const name = ::tenon::emulator::shared_memory()
#else
#define TENON_SHARED_MEMORY(name) extern __shared__ __align__(128) uint8_t name[]
#endif

// How a kernel is launched: with shared memory whose size is not in its code, and before the launch in front has ended,
// which is for kernels that call wait_for_launch_before().
struct Manner {
  uint32_t memory = 0;
  bool is_early = false;
};

// Enqueues a kernel. An empty grid enqueues nothing.
template <typename... Parameters, typename... Arguments>
void enqueue_as(const Manner& manner, const Launch& launch, const char* name, void (*kernel)(Parameters...), dim3 grid,
                unsigned threads, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  // 48 KiB need no asking, but what the kernel's code has by itself counts as well.
  if (manner.memory)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(manner.memory)), name);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(threads), config.stream = static_cast<cudaStream_t>(launch.stream);
  config.dynamicSmemBytes = manner.memory;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (manner.is_early) config.attrs = &attribute, config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), name);
}
template <typename... Parameters, typename... Arguments>
void enqueue(const Launch& launch, const char* name, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
             Arguments... arguments) {
  enqueue_as({}, launch, name, kernel, grid, threads, arguments...);
}
template <typename... Parameters, typename... Arguments>
void enqueue_with_memory(const Launch& launch, const char* name, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                         uint32_t memory, Arguments... arguments) {
  enqueue_as({memory, false}, launch, name, kernel, grid, threads, arguments...);
}
// The same for a kernel that waits by itself, where the launch before it lets it begin early.
template <typename... Parameters, typename... Arguments>
void enqueue_early(const Launch& launch, const char* name, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                   Arguments... arguments) {
  enqueue_as({0, launch.is_early}, launch, name, kernel, grid, threads, arguments...);
}

}  // namespace tenon::cuda
