#include "message.hpp"

#include <utility>

namespace tenon::plugin {
namespace {

thread_local std::string slot;

}  // namespace

tenon_status set_message(tenon_status status, std::string_view text) noexcept {
  try {
    slot.assign(text);
  } catch (...) {
    slot.clear();  // out of memory: the status alone has to do
  }
  return status;
}

std::string take_message() { return std::exchange(slot, {}); }

const char* status_name(tenon_status status) {
  switch (status) {
    case TENON_OK:
      return "ok";
    case TENON_INVALID_ARGUMENT:
      return "invalid argument";
    case TENON_UNSUPPORTED:
      return "unsupported";
    case TENON_NOT_FOUND:
      return "not found";
    case TENON_OUT_OF_MEMORY:
      return "out of memory";
    case TENON_IO:
      return "input or output failed";
    case TENON_CORRUPT:
      return "corrupt";
    case TENON_CAPACITY:
      return "capacity exhausted";
    case TENON_DEVICE_LOST:
      return "device lost";
    case TENON_CANCELLED:
      return "cancelled";
    case TENON_INTERNAL:
      return "internal error";
    case TENON_INCOMPATIBLE:
      return "incompatible";
    default:
      return "unknown status";
  }
}

}  // namespace tenon::plugin
