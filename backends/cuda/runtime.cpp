#include "runtime.hpp"

#include <cstdlib>
#include <string_view>

#ifndef TENON_CUDA_ARCHITECTURES
#define TENON_CUDA_ARCHITECTURES "90a"
#endif

namespace tenon::cuda {
namespace {

tenon_status status_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return TENON_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
      return TENON_UNSUPPORTED;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
      return TENON_DEVICE_LOST;
    default:
      return TENON_INTERNAL;
  }
}

// True if this build's architectures, such as "90a,80-real", serve compute capability major.minor: code with an `a` for
// that device alone, other code for later ones of its major number, and code that is not "-real" for all later ones.
bool has_code_for(int major, int minor) {
  std::string_view list = TENON_CUDA_ARCHITECTURES;
  while (!list.empty()) {
    const std::string one(list.substr(0, list.find(',')));
    list.remove_prefix(one.size() < list.size() ? one.size() + 1 : list.size());
    char* end = nullptr;
    const long code = std::strtol(one.c_str(), &end, 10), wanted = 10 * major + minor;
    if (code == wanted) return true;
    if (*end == 'a' || code > wanted) continue;
    if (code / 10 == major || !one.ends_with("-real")) return true;
  }
  return false;
}

// True if the list names code for exactly this device, which may use what only it has.
bool has_own_code(int major, int minor) {
  const std::string list = std::string(",") + TENON_CUDA_ARCHITECTURES, own = sdk::text(",%d%da", major, minor);
  return list.find(own) != std::string::npos;
}

std::string feature_of(const cudaDeviceProp& properties) {
  return sdk::text("sm_%d%d", properties.major, properties.minor);
}

}  // namespace

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a failure that the device survives must not show up again in a later call
  throw sdk::Error(status_of(code), sdk::text("%s: %s (%s)", call, cudaGetErrorString(code), cudaGetErrorName(code)));
}

const Devices& Devices::instance() {
  static const Devices& devices = *new Devices;  // tables are borrowed for the library's life
  return devices;
}

Devices::Devices() {
  try {
    find();
  } catch (const std::exception& error) {
    why_none_ = error.what();
  }
}

void Devices::find() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    cudaGetLastError();
    why_none_ = code == cudaErrorInsufficientDriver ? "no driver, or one that is older than this build's CUDA"
                                                    : "no CUDA device";
    return;
  }
  check(code, "cudaGetDeviceCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    TENON_CUDA(cudaGetDeviceProperties(&properties, ordinal));
    const std::string feature = feature_of(properties);
    if (!has_code_for(properties.major, properties.minor)) {
      why_none_ = sdk::text("device %d (%s, %s): this build has code for %s; choose with TENON_CUDA_ARCHITECTURES",
                            ordinal, properties.name, feature.c_str(), TENON_CUDA_ARCHITECTURES);
      sdk::log(TENON_LOG_WARNING, why_none_);
      continue;
    }
    auto info = std::make_unique<DeviceInfo>();
    info->ordinal = ordinal, info->name = properties.name;
    info->features = {feature};
    if (has_own_code(properties.major, properties.minor)) info->features.push_back(feature + "a");
    for (const std::string& text : info->features) info->feature_views.push_back(sdk::to_str(text));
    tenon_device& table = info->table;
    table.struct_size = sizeof table, table.index = uint32_t(list_.size());
    table.backend = sdk::to_str("cuda"), table.name = sdk::to_str(info->name);
    table.features = info->feature_views.data(), table.n_feature = uint32_t(info->feature_views.size());
    table.max_workers = 1, table.memory_bytes = properties.totalGlobalMem;
    table.compute_major = uint32_t(properties.major), table.compute_minor = uint32_t(properties.minor);
    tables_.push_back(&info->table);
    list_.push_back(std::move(info));
  }
}

void Devices::require() const {
  if (list_.empty()) throw sdk::Error(TENON_UNSUPPORTED, why_none_);
}

const DeviceInfo& Devices::at(uint32_t index) const {
  if (index >= list_.size())
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("device %u of %u", index, unsigned(list_.size())));
  return *list_[index];
}

const DeviceInfo& Devices::use(uint32_t index) const {
  at(index);  // or it throws
  DeviceInfo& info = *list_[index];
  TENON_CUDA(cudaSetDevice(info.ordinal));
  std::call_once(info.opened, [&] { TENON_CUDA(cudaStreamCreateWithFlags(&info.own_stream, cudaStreamNonBlocking)); });
  return info;
}

Handles& Handles::instance() {
  static Handles& handles = *new Handles;
  return handles;
}

void Handles::add(void* handle, uint32_t what, uint32_t device) {
  const std::lock_guard lock(mutex_);
  entries_[handle] = {what, device};
}

uint32_t Handles::device_of(void* handle, uint32_t what) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end() || (what && found->second.what != what))
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     sdk::text("handle %p is no stream, event or graph of this backend", handle));
  return found->second.device;
}

bool Handles::is(void* handle, uint32_t what) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  return found != entries_.end() && found->second.what == what;
}

void Handles::remove(void* handle, uint32_t what) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found != entries_.end() && found->second.what == what) entries_.erase(found);
}

void use_device_of(void* stream) {
  const Devices& devices = Devices::instance();
  if (!stream || devices.size() == 1) {
    devices.use(0);
  } else {
    devices.use(Handles::instance().device_of(stream, TENON_HANDLE_STREAM));
  }
}

}  // namespace tenon::cuda
