// The runtime's calls on host memory. Streams are done when a call returns; a capturing stream keeps its work instead.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <new>
#include <vector>

#include "cuda_runtime.h"

using Work = std::vector<std::function<cudaError_t()>>;
struct EmulatedGraph {
  Work work;
};
struct EmulatedStream {
  int device;
  bool is_capturing = false;
  Work work;
  std::future<cudaError_t> waiting;
  cudaError_t done() { return waiting.valid() ? waiting.get() : cudaSuccess; }
};
struct EmulatedEvent {
  int device;
};

namespace {

constexpr int kDevices = 2;
thread_local int current = 0;

}  // namespace

namespace tenon::emulator {

bool is_here(cudaStream_t stream) { return !stream || stream->device == current; }

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (!stream || !stream->is_capturing) {
    const cudaError_t earlier = stream ? stream->done() : cudaSuccess;
    return earlier == cudaSuccess ? work() : earlier;
  }
  stream->work.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t enqueue_waiting(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (stream->is_capturing) return enqueue(stream, std::move(work));
  const cudaError_t earlier = stream->done();
  if (earlier == cudaSuccess) stream->waiting = std::async(std::launch::async, std::move(work));
  return earlier;
}

}  // namespace tenon::emulator

using tenon::emulator::enqueue;
using tenon::emulator::is_here;

// Two processors: few blocks at once, so that they take work in turns.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 2, cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) {
  constexpr int kMostBytes = 227 << 10;
  return bytes <= kMostBytes ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory"
         : code == cudaErrorLaunchFailure  ? "launch failed"
                                           : "error";
}
const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
cudaError_t cudaGetDeviceCount(int* n) { return *n = kDevices, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  std::snprintf(p->name, sizeof p->name, "emulated device");
  p->major = 9, p->minor = 0;
  p->totalGlobalMem = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  return current = device, cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = current, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free_now, size_t* total) {
  *total = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  *free_now = size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, size_t bytes) {
  size_t free_now, total;
  cudaMemGetInfo(&free_now, &total);
  if (bytes > total) return cudaErrorMemoryAllocation;
  *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*out) return cudaErrorMemoryAllocation;
  memset(*out, 0xcd, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) { return std::free(p), cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void*) { return out->device = current, cudaSuccess; }
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) { return cudaMalloc(out, bytes); }
cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }

cudaError_t cudaMemsetAsync(void* p, int byte, size_t bytes, cudaStream_t stream) {
  if (!is_here(stream)) return cudaErrorInvalidResourceHandle;
  return enqueue(stream, [=] { return memset(p, byte, bytes), cudaSuccess; });
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return enqueue(stream, [=] { return memmove(dst, src, bytes), cudaSuccess; });
}
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_step, const void* src, size_t src_step, size_t width, size_t rows,
                              cudaMemcpyKind, cudaStream_t stream) {
  if (width > dst_step || width > src_step) return cudaErrorInvalidValue;
  return enqueue(stream, [=] {
    for (size_t r = 0; r < rows; ++r)
      memmove(static_cast<char*>(dst) + r * dst_step, static_cast<const char*>(src) + r * src_step, width);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  return *out = new EmulatedStream{current, false, {}, {}}, cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  return cudaStreamCreateWithFlags(out, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return stream->done(); }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->waiting.valid() && stream->waiting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return cudaErrorNotReady;
  return stream->done();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  return *out = new EmulatedEvent{current}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return is_here(stream) && (!stream || event->device == stream->device) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->is_capturing) return cudaErrorInvalidValue;
  return stream->is_capturing = true, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  if (!stream->is_capturing) return cudaErrorInvalidValue;
  stream->is_capturing = false;
  *out = new EmulatedGraph{std::move(stream->work)};
  stream->work.clear();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return *out = new EmulatedGraph(*graph), cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return tenon::emulator::enqueue_waiting(stream, [work = graph->work] {
    for (const auto& one : work)
      if (const cudaError_t code = one(); code != cudaSuccess) return code;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaErrorInvalidDevice; }
cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaErrorInvalidDevice; }
