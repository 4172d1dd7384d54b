// An emulator of CUDA, so that the backend's sources, device code included, can be compiled by a host compiler and run
// where there is no GPU: in the same order of floating-point operations, a block at a time, a thread of a block being a
// fiber. A barrier that not all threads reach, or a warp operation that not all lanes reach, fails the launch. There are two
// devices, and launches and events are refused on streams of one that is not the thread's current device.
//
// Only what backends/cuda uses is here. It shadows the toolkit's header of the same name.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <functional>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __shared__ static  // blocks run one after the other
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline
#define TENON_CUDA_IS_EMULATED 1

using std::isfinite;
using std::isinf;
using std::isnan;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// Of the running thread. Launches are serialised.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace tenon::emulator {

void block_barrier();
uint32_t exchange(uint32_t value, unsigned lane_mask);  // value of the lane whose number differs by the mask
uint32_t from_lane(uint32_t value, unsigned lane);     // value of that lane of the warp
bool vote(bool value, bool all);
// A launch that may begin early waits here. Launches run one after the other, but each thread of such a one has to come.
void wait_for_launch_before();
uint8_t* shared_memory();  // of the running launch, as many bytes as it asked for

}  // namespace tenon::emulator

inline void __syncthreads() { tenon::emulator::block_barrier(); }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  return __uint_as_float(tenon::emulator::exchange(__float_as_uint(value), unsigned(mask)));
}
inline int __shfl_xor_sync(unsigned, int value, int mask) {
  return int(tenon::emulator::exchange(uint32_t(value), unsigned(mask)));
}
inline int __shfl_sync(unsigned, int value, int lane) {
  return int(tenon::emulator::from_lane(uint32_t(value), unsigned(lane)));
}
inline float __shfl_sync(unsigned, float value, int lane) {
  return __uint_as_float(tenon::emulator::from_lane(__float_as_uint(value), unsigned(lane)));
}
inline int __all_sync(unsigned, int value) { return tenon::emulator::vote(value != 0, true); }
inline int __any_sync(unsigned, int value) { return tenon::emulator::vote(value != 0, false); }
inline unsigned atomicOr(unsigned* address, unsigned bits) {
  const unsigned old = *address;
  *address |= bits;
  return old;
}

// The runtime.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorContextIsDestroyed = 709,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };

typedef struct EmulatedStream* cudaStream_t;
typedef struct EmulatedEvent* cudaEvent_t;
typedef struct EmulatedGraph* cudaGraph_t;
typedef struct EmulatedGraph* cudaGraphExec_t;
struct cudaDeviceProp {
  char name[64];
  int major, minor;
  size_t totalGlobalMem;
};
struct cudaPointerAttributes {
  int device;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaMemGetInfo(size_t*, size_t*);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes*, const void*);
cudaError_t cudaHostAlloc(void**, size_t, unsigned);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2DAsync(void*, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaDeviceGetStreamPriorityRange(int*, int*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned, int);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaDeviceCanAccessPeer(int*, int, int);
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned);
cudaError_t cudaDeviceDisablePeerAccess(int);

namespace tenon::emulator {

// Runs at once, or joins the graph that the stream captures.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);
// The same for work that may wait for other threads: the caller goes on, and what comes on the stream then waits for it.
cudaError_t enqueue_waiting(cudaStream_t stream, std::function<cudaError_t()> work);
// Whether the stream is the current device's: only then a kernel can be launched on it.
bool is_here(cudaStream_t stream);
// `memory`: bytes of shared memory; `is_early`: launched so that every thread has to wait for the launch before.
cudaError_t run_grid(dim3 grid, dim3 block, size_t memory, const std::function<void()>& thread, bool is_early = false);

}  // namespace tenon::emulator

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (!tenon::emulator::is_here(config->stream)) return cudaErrorInvalidResourceHandle;
  const std::function<void()> thread = [kernel, ... copies = Parameters(arguments)] { kernel(copies...); };
  bool is_early = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) is_early |= config->attrs[i].val.programmaticStreamSerializationAllowed != 0;
  return tenon::emulator::enqueue(config->stream, [grid = config->gridDim, block = config->blockDim, memory = config->dynamicSmemBytes,
                                                   thread, is_early] {
    return tenon::emulator::run_grid(grid, block, memory, thread, is_early);
  });
}
