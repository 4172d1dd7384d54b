#include "image.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "op_harness.hpp"

namespace tenon::gpu_test {
namespace {

constexpr uint32_t kHost = UINT32_MAX;
constexpr size_t kAlign = 256, kGuardBytes = 256;
constexpr uint8_t kGuard = 0xa5, kPoison = 0xff;

}  // namespace

Device::Device(const tenon_backend& backend, uint32_t index, uint64_t bytes) : backend_(backend), bytes_(bytes) {
  uint32_t n = 0;
  const tenon_device* const* list = nullptr;
  check(backend.devices(backend.self, &n, &list), "devices");
  if (index >= n) throw std::runtime_error("device " + std::to_string(index) + " of " + std::to_string(n));
  table_ = list[index];
  check(backend.alloc(backend.self, index, TENON_MEMORY_DEVICE, bytes, 256, &memory_), "alloc");
  check(backend.stream(backend.self, index, 0, &stream_), "stream");
}

Device::~Device() {
  if (stream_) backend_.destroy(backend_.self, TENON_HANDLE_STREAM, stream_);
  if (memory_) backend_.free(backend_.self, table_->index, TENON_MEMORY_DEVICE, memory_);
}

void Device::check(tenon_status status, const char* what) const {
  if (status != TENON_OK)
    throw std::runtime_error(std::string(what) + " answered " + std::to_string(status) + ": " +
                             testing::Kit::instance().error());
}

tenon_addr Image::add(const void* data, size_t bytes, const std::string& what) {
  const size_t begin = (bytes_.size() + kAlign - 1) / kAlign * kAlign;
  if (begin + bytes + kGuardBytes > device_.bytes()) throw std::runtime_error("the test's device memory is too small");
  bytes_.resize(begin + bytes + kGuardBytes, kGuard);
  std::fill(bytes_.begin() + int64_t(begin), bytes_.begin() + int64_t(begin + bytes), kPoison);
  if (data && bytes) std::memcpy(bytes_.data() + begin, data, bytes);
  parts_.push_back({begin, bytes, what});
  return device_.memory() + begin;
}

void Image::upload() {
  const tenon_backend& backend = device_.backend();
  device_.check(backend.copy(backend.self, nullptr, device_.table().index, device_.memory(), kHost,
                             reinterpret_cast<tenon_addr>(bytes_.data()), bytes_.size(), 1, 0, 0),
                "copy to the device");
}

void Image::download() {
  const tenon_backend& backend = device_.backend();
  device_.check(backend.copy(backend.self, nullptr, kHost, reinterpret_cast<tenon_addr>(bytes_.data()),
                             device_.table().index, device_.memory(), bytes_.size(), 1, 0, 0),
                "copy from the device");
  for (const Part& part : parts_)
    for (size_t i = part.begin + part.bytes; i < part.begin + part.bytes + kGuardBytes; ++i)
      if (bytes_[i] != kGuard) throw std::runtime_error(part.what + " was written beyond its end");
}

}  // namespace tenon::gpu_test
