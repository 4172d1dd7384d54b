#include "cursor.hpp"

#include <tenon/sdk/format.hpp>

namespace tenon::gguf {

std::string quoted(std::string_view text) { return sdk::quoted(text, 64); }

void fail_at(std::string_view file, const std::string& field, uint64_t offset, const std::string& message,
             tenon_status status) {
  throw sdk::Error(status, quoted(file) + ": " + field + " at byte " + std::to_string(offset) + ": " + message);
}

}  // namespace tenon::gguf
