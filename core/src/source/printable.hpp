// printable.hpp: text that a file or a plugin gave, made fit for a message.
#pragma once

#include <string>
#include <string_view>

namespace tenon::source {

// Control bytes become '?'; a long text is cut.
inline std::string printable(std::string_view text) {
  constexpr size_t kShown = 128;
  std::string out(text.substr(0, kShown));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() > kShown ? out + "…" : out;
}

}  // namespace tenon::source
