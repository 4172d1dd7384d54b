#include "fault.hpp"

#include <algorithm>
#include <tenon/sdk/format.hpp>

namespace tenon::safetensors {

std::string quoted(std::string_view text) { return sdk::quoted(text, 128); }

std::string listed(const std::vector<std::string>& names, const char* what) {
  constexpr size_t kShown = 4;
  std::string out = std::to_string(names.size()) + " " + what + (names.size() == 1 ? " (" : "s (");
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i ? ", " : "") + quoted(names[i]);
  return out + (names.size() > kShown ? ", …)" : ")");
}

void fail(std::string_view file, const std::string& message, tenon_status status) {
  throw sdk::Error(status, quoted(file) + ": " + message);
}

void fail_at(std::string_view file, const std::string& field, uint64_t offset, const std::string& message,
             tenon_status status) {
  fail(file, field + " at byte " + std::to_string(offset) + ": " + message, status);
}

}  // namespace tenon::safetensors
