#include "cursor.hpp"

namespace tenon::gguf {

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += sdk::text("\\x%02x", unsigned(byte));
    } else {
      out += c;
    }
  }
  return out + (text.size() > kShown ? "…'" : "'");
}

void fail_at(std::string_view file, const std::string& field, uint64_t offset, const std::string& message,
             tenon_status status) {
  throw sdk::Error(status, quoted(file) + ": " + field + " at byte " + std::to_string(offset) + ": " + message);
}

}  // namespace tenon::gguf
