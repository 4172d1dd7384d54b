// image.hpp: memory of a test on a device: built on the host, sent in one copy, fetched in one copy, every part
// guarded.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::gpu_test {

// A device of a backend with one block of memory, reused by every run.
class Device {
 public:
  // Throws std::runtime_error with the backend's message.
  Device(const tenon_backend& backend, uint32_t index, uint64_t bytes);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const tenon_backend& backend() const { return backend_; }
  const tenon_device& table() const { return *table_; }
  void* stream() const { return stream_; }
  tenon_addr memory() const { return memory_; }
  uint64_t bytes() const { return bytes_; }
  void check(tenon_status status, const char* what) const;

 private:
  const tenon_backend& backend_;
  const tenon_device* table_ = nullptr;
  void* stream_ = nullptr;
  tenon_addr memory_ = 0;
  uint64_t bytes_;
};

// Parts of device memory, each at a multiple of 256 bytes with a guard behind it.
class Image {
 public:
  explicit Image(const Device& device) : device_(device) {}
  // Copies `bytes` from `data`, or fills them with 0xff (NaN in every float encoding) when it is null.
  tenon_addr add(const void* data, size_t bytes, const std::string& what);
  void upload();
  // Fetches all parts and throws when a guard was written.
  void download();
  // A part as it was last fetched, or as it will be sent.
  uint8_t* at(tenon_addr address) { return bytes_.data() + (address - device_.memory()); }

 private:
  struct Part {
    size_t begin, bytes;
    std::string what;
  };
  const Device& device_;
  std::vector<uint8_t> bytes_;
  std::vector<Part> parts_;
};

}  // namespace tenon::gpu_test
