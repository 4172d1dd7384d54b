// device.hpp: one device of a backend, and memory on it.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <utility>

namespace tenon::program {

// A backend's device. Borrows both tables. Copyable; any thread.
class Device {
 public:
  Device(const tenon_backend* backend, const tenon_device* device) : backend_(backend), device_(device) {}
  const tenon_backend& backend() const { return *backend_; }
  const tenon_device& table() const { return *device_; }
  bool is_host_memory() const { return backend_->flags & TENON_BACKEND_HOST_MEMORY; }
  bool is_spmd() const { return backend_->flags & TENON_BACKEND_SPMD; }
  // Throw Error(kRuntime) with the backend's message.
  void upload(tenon_addr dst, const void* src, uint64_t bytes) const;
  void download(void* dst, tenon_addr src, uint64_t bytes) const;
  void copy(tenon_addr dst, tenon_addr src, uint64_t bytes) const;
  void fill(tenon_addr dst, uint8_t byte, uint64_t bytes) const;

 private:
  const tenon_backend* backend_;
  const tenon_device* device_;
};

// Zeroed device memory, freed by the destructor. Movable.
class Buffer {
 public:
  Buffer() = default;
  // Throws Error(kCapacity) naming `what` and the size.
  Buffer(const Device& device, uint64_t bytes, const char* what, uint64_t align = 64);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();
  tenon_addr address() const { return address_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) {
    std::swap(backend_, other.backend_), std::swap(device_, other.device_);
    std::swap(address_, other.address_), std::swap(bytes_, other.bytes_);
  }
  const tenon_backend* backend_ = nullptr;
  uint32_t device_ = 0;
  tenon_addr address_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace tenon::program
