#include "memory.hpp"

#include <cstring>

#include "probe.hpp"
#include "runtime.hpp"

namespace tenon::cuda {
namespace {

constexpr uint32_t kHost = UINT32_MAX;
constexpr uint64_t kRuntimeAlign = 256;  // what cudaMalloc and cudaHostAlloc give at least

using Wide = unsigned long long;

void* pointer(tenon_addr address) { return reinterpret_cast<void*>(address); }

// Blocks whose address was moved forward to a coarser alignment than the runtime's: address -> begin of the block.
class Shifted {
 public:
  static Shifted& instance() {
    static Shifted& shifted = *new Shifted;
    return shifted;
  }
  void add(tenon_addr address, tenon_addr begin) {
    const std::lock_guard lock(mutex_);
    begins_[address] = begin;
  }
  tenon_addr take(tenon_addr address) {
    const std::lock_guard lock(mutex_);
    const auto found = begins_.find(address);
    if (found == begins_.end()) return address;
    const tenon_addr begin = found->second;
    begins_.erase(found);
    return begin;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<tenon_addr, tenon_addr> begins_;
};

cudaError_t free_block(uint32_t kind, void* block) {
  return kind == TENON_MEMORY_DEVICE ? cudaFree(block) : cudaFreeHost(block);
}

// The stream of a call that is done on return, or the caller's.
class CallStream {
 public:
  CallStream(void* stream, uint32_t dev) : is_own_(!stream) {
    const Devices& devices = Devices::instance();
    if (is_own_) {
      stream_ = devices.use(dev).own_stream;
    } else {
      use_device_of(stream);
      stream_ = static_cast<cudaStream_t>(stream);
    }
  }
  cudaStream_t get() const { return stream_; }
  void finish() const {
    if (is_own_) TENON_CUDA(cudaStreamSynchronize(stream_));
  }

 private:
  cudaStream_t stream_ = nullptr;
  bool is_own_;
};

// Device memory of the probe, freed on every way out.
struct ProbeBuffer {
  ProbeBuffer(uint32_t dev, uint32_t n) {
    Devices::instance().use(dev);
    TENON_CUDA(cudaMalloc(&data, n * sizeof(uint32_t)));
  }
  ~ProbeBuffer() { cudaFree(data); }
  ProbeBuffer(const ProbeBuffer&) = delete;
  ProbeBuffer& operator=(const ProbeBuffer&) = delete;
  uint32_t* words() const { return static_cast<uint32_t*>(data); }
  void* data = nullptr;
};

// Writes and reads a pattern in `to`'s memory by kernels on `from`, and looks at both ends from the host.
bool exchange_works(uint32_t from, uint32_t to) {
  constexpr uint32_t kWords = 1 << 16, kRounds = 3;
  const ProbeBuffer remote(to, kWords), seen(from, kWords);
  std::vector<uint32_t> host(kWords);
  const auto holds = [&](uint32_t dev, const uint32_t* words, uint32_t round) {
    const cudaStream_t stream = Devices::instance().use(dev).own_stream;
    TENON_CUDA(cudaMemcpyAsync(host.data(), words, kWords * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    TENON_CUDA(cudaStreamSynchronize(stream));
    for (uint32_t i = 0; i < kWords; ++i)
      if (host[i] != probe_pattern(round, i)) return false;
    return true;
  };
  for (uint32_t round = 0; round < kRounds; ++round) {
    const cudaStream_t stream = Devices::instance().use(from).own_stream;
    TENON_CUDA(probe_exchange(seen.words(), remote.words(), round, kWords, stream));
    TENON_CUDA(cudaStreamSynchronize(stream));
    if (!holds(to, remote.words(), round)) return false;
    if (round > 0 && !holds(from, seen.words(), round - 1)) return false;
  }
  return true;
}

}  // namespace

tenon_status memory_info(void*, uint32_t dev, uint64_t* free_bytes, uint64_t* total) noexcept {
  return sdk::guard([&] {
    size_t free_now = 0, all = 0;
    Devices::instance().use(dev);
    TENON_CUDA(cudaMemGetInfo(&free_now, &all));
    *free_bytes = free_now, *total = all;
  });
}

tenon_status allocate(void*, uint32_t dev, uint32_t kind, uint64_t bytes, uint64_t align,
                      tenon_addr* address) noexcept {
  return sdk::guard([&] {
    if (align & (align - 1))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("alignment %llu is no power of two", Wide(align)));
    if (kind > TENON_MEMORY_MAPPED) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("memory of kind %u", kind));
    const DeviceInfo& device = Devices::instance().use(dev);
    const uint64_t extra = align > kRuntimeAlign ? align : 0, size = (bytes ? bytes : 1) + extra;
    if (size < bytes) throw sdk::Error(TENON_OUT_OF_MEMORY, sdk::text("%llu bytes", Wide(bytes)));
    void* block = nullptr;
    if (kind == TENON_MEMORY_DEVICE) {
      TENON_CUDA(cudaMalloc(&block, size));
      const cudaError_t code = cudaMemsetAsync(block, 0, size, device.own_stream);
      const cudaError_t done = code == cudaSuccess ? cudaStreamSynchronize(device.own_stream) : code;
      if (done != cudaSuccess) cudaFree(block);
      check(done, "cudaMemsetAsync of new memory");
    } else {
      unsigned flags = cudaHostAllocPortable;
      if (kind == TENON_MEMORY_MAPPED) flags |= cudaHostAllocMapped;
      TENON_CUDA(cudaHostAlloc(&block, size, flags));
      std::memset(block, 0, size);
    }
    tenon_addr begin = reinterpret_cast<tenon_addr>(block);
    if (extra) {
      const tenon_addr moved = (begin + align - 1) & ~(align - 1);
      if (moved != begin) Shifted::instance().add(moved, begin);
      begin = moved;
    }
    *address = begin;
  });
}

void release(void*, uint32_t dev, uint32_t kind, tenon_addr address) noexcept {
  if (!address) return;
  sdk::guard([&] {
    Devices::instance().use(dev);
    TENON_CUDA(free_block(kind, pointer(Shifted::instance().take(address))));
  });
}

tenon_status copy(void*, void* stream, uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src,
                  uint64_t row_bytes, uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept {
  return sdk::guard([&] {
    if (!row_bytes || !rows) return;
    if (rows > 1 && (dst_step < row_bytes || src_step < row_bytes))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("rows of %llu bytes lie %llu and %llu bytes apart",
                                                         Wide(row_bytes), Wide(dst_step), Wide(src_step)));
    if (dst_dev == kHost && src_dev == kHost && !stream) {
      for (uint64_t r = 0; r < rows; ++r)
        std::memcpy(pointer(dst + r * dst_step), pointer(src + r * src_step), row_bytes);
      return;
    }
    const CallStream call(stream, dst_dev != kHost ? dst_dev : src_dev != kHost ? src_dev : 0);
    // Addresses are unified: the runtime finds the direction, and stages between devices that cannot reach each other.
    constexpr uint64_t kMaxStep = (uint64_t(1) << 31) - 1;
    if (rows == 1 || (dst_step == row_bytes && src_step == row_bytes)) {
      TENON_CUDA(cudaMemcpyAsync(pointer(dst), pointer(src), row_bytes * rows, cudaMemcpyDefault, call.get()));
    } else if (dst_step <= kMaxStep && src_step <= kMaxStep) {
      TENON_CUDA(cudaMemcpy2DAsync(pointer(dst), dst_step, pointer(src), src_step, row_bytes, rows, cudaMemcpyDefault,
                                   call.get()));
    } else {
      for (uint64_t r = 0; r < rows; ++r)
        TENON_CUDA(cudaMemcpyAsync(pointer(dst + r * dst_step), pointer(src + r * src_step), row_bytes,
                                   cudaMemcpyDefault, call.get()));
    }
    call.finish();
  });
}

tenon_status fill(void*, void* stream, uint32_t dev, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  return sdk::guard([&] {
    if (!bytes) return;
    if (dev == kHost) throw sdk::Error(TENON_INVALID_ARGUMENT, "fill() is for device memory");
    const CallStream call(stream, dev);
    TENON_CUDA(cudaMemsetAsync(pointer(address), int(byte & 0xff), bytes, call.get()));
    call.finish();
  });
}

tenon_status peer(void*, uint32_t from, uint32_t to, uint32_t* direct) noexcept {
  return sdk::guard([&] {
    const Devices& devices = Devices::instance();
    const DeviceInfo &near = devices.at(from), &far = devices.at(to);
    if (from == to) {
      *direct = 1;
      return;
    }
    int possible = 0;
    TENON_CUDA(cudaDeviceCanAccessPeer(&possible, near.ordinal, far.ordinal));
    if (possible) {
      devices.use(from);
      const cudaError_t code = cudaDeviceEnablePeerAccess(far.ordinal, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
      } else {
        check(code, "cudaDeviceEnablePeerAccess");
      }
      if (!exchange_works(from, to)) {
        sdk::log(TENON_LOG_WARNING, sdk::text("device %u claims access to device %u, but a pattern came back changed: "
                                              "copies go through the host",
                                              from, to));
        devices.use(from);
        TENON_CUDA(cudaDeviceDisablePeerAccess(far.ordinal));
        possible = 0;
      }
    }
    *direct = uint32_t(possible);
  });
}

}  // namespace tenon::cuda
