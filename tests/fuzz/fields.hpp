// fields.hpp: one input that holds several texts, separated by the byte 1, which JSON never has.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

// At least one.
inline std::vector<std::string_view> fields_of(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> out;
  for (size_t border; (border = rest.find('\1')) != rest.npos; rest.remove_prefix(border + 1))
    out.push_back(rest.substr(0, border));
  out.push_back(rest);
  return out;
}

}  // namespace tenon::fuzz
