#include "device.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

namespace tenon::program {
namespace {

constexpr uint32_t kHost = UINT32_MAX;

tenon_addr address_of(const void* pointer) { return reinterpret_cast<tenon_addr>(pointer); }

}  // namespace

void Device::upload(tenon_addr dst, const void* src, uint64_t bytes) const {
  if (!bytes) return;
  plugin::check_status(backend_->copy(backend_->self, nullptr, device_->index, dst, kHost, address_of(src), bytes, 1, bytes, bytes),
                       "copy to the device");
}

void Device::download(void* dst, tenon_addr src, uint64_t bytes) const {
  if (!bytes) return;
  plugin::check_status(backend_->copy(backend_->self, nullptr, kHost, address_of(dst), device_->index, src, bytes, 1, bytes, bytes),
                       "copy from the device");
}

void Device::copy(tenon_addr dst, tenon_addr src, uint64_t bytes) const {
  if (!bytes) return;
  plugin::check_status(backend_->copy(backend_->self, nullptr, device_->index, dst, device_->index, src, bytes, 1, bytes, bytes),
                       "copy on the device");
}

void Device::fill(tenon_addr dst, uint8_t byte, uint64_t bytes) const {
  if (!bytes) return;
  plugin::check_status(backend_->fill(backend_->self, nullptr, device_->index, dst, byte, bytes), "fill device memory");
}

Buffer::Buffer(const Device& device, uint64_t bytes, const char* what, uint64_t align) : bytes_(bytes) {
  if (!bytes) return;
  const tenon_backend& backend = device.backend();
  const tenon_status status =
      backend.alloc(backend.self, device.table().index, TENON_MEMORY_DEVICE, bytes, align, &address_);
  if (status != TENON_OK) {
    const std::string message = plugin::PluginHost::take_message();
    throw Error(ErrorKind::kCapacity,
                fmt::format("{}: {:.1f} MiB could not be had{}{}", what, double(bytes) / (1 << 20), message.empty() ? "" : ": ", message));
  }
  backend_ = &backend, device_ = device.table().index;
}

Buffer::~Buffer() {
  if (address_) backend_->free(backend_->self, device_, TENON_MEMORY_DEVICE, address_);
}

}  // namespace tenon::program
