// runtime.hpp: the CUDA runtime behind checks: errors become sdk::Error with the failing call's text, devices are
// listed once, and handles know their device.
//
// The runtime is linked statically and opens the driver when it is first called, so the plugin loads on machines that
// have none.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <string>
#include <tenon/sdk/base.hpp>
#include <unordered_map>
#include <vector>

namespace tenon::cuda {

// Throws sdk::Error naming the call and what the runtime says. OUT_OF_MEMORY and DEVICE_LOST have their own status.
void check(cudaError_t code, const char* call);
#define TENON_CUDA(call) ::tenon::cuda::check((call), #call)

// A device that this build has code for.
struct DeviceInfo {
  tenon_device table = {};
  int ordinal = 0;  // the runtime's number; table.index counts usable devices only
  std::string name;
  std::vector<std::string> features;
  std::vector<tenon_str> feature_views;
  // Serves calls without a stream: never the legacy stream, which other streams do not wait for. Made at the first use,
  // since a device that nobody uses shall not be opened.
  cudaStream_t own_stream = nullptr;
  std::once_flag opened;
};

// All usable devices, found at the first call. Immutable then; any thread.
class Devices {
 public:
  static const Devices& instance();
  // UNSUPPORTED with the reason where there is none.
  void require() const;
  uint32_t size() const { return uint32_t(list_.size()); }
  const tenon_device* const* tables() const { return tables_.data(); }
  // Throws INVALID_ARGUMENT for a number that is no device.
  const DeviceInfo& at(uint32_t index) const;
  // Makes it the calling thread's device.
  const DeviceInfo& use(uint32_t index) const;

 private:
  Devices();
  void find();
  std::vector<std::unique_ptr<DeviceInfo>> list_;
  std::vector<const tenon_device*> tables_;
  std::string why_none_;
};

// Streams, events and graphs that this backend made, with their device. Any thread.
class Handles {
 public:
  static Handles& instance();
  void add(void* handle, uint32_t what, uint32_t device);
  // Throws INVALID_ARGUMENT when the handle is none of `what`; 0 = any.
  uint32_t device_of(void* handle, uint32_t what) const;
  bool is(void* handle, uint32_t what) const;
  void remove(void* handle, uint32_t what);

 private:
  struct Entry {
    uint32_t what, device;
  };
  mutable std::mutex mutex_;
  std::unordered_map<void*, Entry> entries_;
};

// Device of a stream for a launch, made the calling thread's device. A null stream is the first device's default
// stream.
void use_device_of(void* stream);

}  // namespace tenon::cuda
