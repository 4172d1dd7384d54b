// A kernel that reads memory once, in order, 16 bytes a thread and several of them at a time.
#include "bench_read.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

namespace tenon::gpu_bench {
namespace {

constexpr unsigned kThreads = 512, kInFlight = 8;

__global__ void read_all(const uint4* data, uint64_t n, unsigned* out) {
  const uint64_t step = uint64_t(gridDim.x) * kThreads;
  unsigned bits = 0;
  uint64_t i = uint64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + (kInFlight - 1) * step < n; i += kInFlight * step) {
    uint4 v[kInFlight];
#pragma unroll
    for (unsigned k = 0; k < kInFlight; ++k) v[k] = __ldcs(data + i + k * step);
#pragma unroll
    for (unsigned k = 0; k < kInFlight; ++k) bits |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  if (bits == 0x12345678u) *out = bits;  // so that nothing is left out
}

}  // namespace

double read_bandwidth(uint32_t device, uint64_t address, uint64_t bytes) {
  cudaDeviceProp prop;
  cudaEvent_t begin, end;
  if (cudaSetDevice(int(device)) || cudaGetDeviceProperties(&prop, int(device)) || cudaEventCreate(&begin) || cudaEventCreate(&end)) return 0;
  // Not zeros: they may be read faster than numbers.
  auto* data = reinterpret_cast<uint4*>(address);
  std::vector<uint32_t> noise(1 << 22);
  uint32_t x = 1;
  for (uint32_t& word : noise) word = x = x * 1664525u + 1013904223u;
  const uint64_t piece = noise.size() * 4;
  if (cudaMemcpy(data, noise.data(), std::min(bytes, piece), cudaMemcpyHostToDevice)) return 0;
  for (uint64_t done = piece; done + piece <= bytes; done += piece)
    if (cudaMemcpy(reinterpret_cast<char*>(data) + done, data, piece, cudaMemcpyDeviceToDevice)) return 0;
  std::vector<float> all;
  for (int i = 0; i < 9; ++i) {
    cudaEventRecord(begin);
    read_all<<<unsigned(prop.multiProcessorCount) * 4, kThreads>>>(data, bytes / 16, reinterpret_cast<unsigned*>(address));
    cudaEventRecord(end);
    float ms = 0;
    if (cudaEventSynchronize(end) || cudaEventElapsedTime(&ms, begin, end) || ms <= 0) return 0;
    all.push_back(ms);
  }
  std::sort(all.begin(), all.end());
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return double(bytes) / (double(all[all.size() / 2]) * 1e-3);
}

}  // namespace tenon::gpu_bench
