// byte_map.hpp: the printable stand-ins that byte-level BPE vocabularies write for bytes (as GPT-2 introduced them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::text {

// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68 become U+0100, U+0101, … in increasing order.
char32_t stand_in_of(uint8_t byte);
std::optional<uint8_t> byte_of(char32_t stand_in);

void append_utf8(std::string& out, char32_t code_point);

// Bytes as a vocabulary spells them, and back. A character that stands for no byte stays as it is.
std::string to_stand_ins(std::string_view bytes);
std::string from_stand_ins(std::string_view spelled);

}  // namespace tenon::text
