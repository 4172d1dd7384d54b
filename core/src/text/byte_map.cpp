#include "text/byte_map.hpp"

#include <array>

#include "text/code_points.hpp"

namespace tenon::text {
namespace {

struct Map {
  std::array<char32_t, 256> forward{};
  std::array<int16_t, 0x100 + 68> backward{};
  Map() {
    backward.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const char32_t value = printable ? static_cast<char32_t>(byte) : next++;
      forward[byte] = value;
      backward[value] = static_cast<int16_t>(byte);
    }
  }
};

const Map& map() {
  static const Map instance;
  return instance;
}

}  // namespace

char32_t stand_in_of(uint8_t byte) { return map().forward[byte]; }

std::optional<uint8_t> byte_of(char32_t stand_in) {
  const auto& backward = map().backward;
  if (stand_in >= backward.size() || backward[stand_in] < 0) return std::nullopt;
  return static_cast<uint8_t>(backward[stand_in]);
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::string to_stand_ins(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char byte : bytes) append_utf8(out, stand_in_of(static_cast<uint8_t>(byte)));
  return out;
}

std::string from_stand_ins(std::string_view spelled) {
  std::string out;
  out.reserve(spelled.size());
  for (size_t pos = 0; pos < spelled.size();) {
    const CodePoint c = decode_at(spelled, pos);
    const auto byte = c.valid ? byte_of(c.value) : std::nullopt;
    if (byte) {
      out += static_cast<char>(*byte);
    } else {
      out += spelled.substr(pos, c.size);
    }
    pos += c.size;
  }
  return out;
}

}  // namespace tenon::text
