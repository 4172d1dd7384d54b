// code_points.hpp: UTF-8 decoding that accepts any bytes, and the character classes that pre-tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::text {

inline constexpr char32_t kReplacement = 0xFFFD;

struct CodePoint {
  char32_t value = 0;
  uint32_t size = 0;  // bytes taken, >= 1
  bool valid = true;  // false: one byte that begins no well-formed character; value is U+FFFD
};

// The character that begins at `pos` < text.size(). Well-formed is what the Unicode Standard (table 3-7) says: no
// overlong forms, no surrogates, at most U+10FFFF.
CodePoint decode_at(std::string_view text, size_t pos);

// How far the bytes are from one whole character.
struct Utf8Prefix {
  uint32_t size = 0;   // bytes of the character, or of its longest well-formed beginning (1 when there is none)
  bool whole = false;  // the character is complete and well-formed
  bool open = false;   // the text ends inside what may still become a character
};
Utf8Prefix scan_utf8(std::string_view text, size_t pos);

enum : uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kMark = 4,         // \p{M}
  kPunctuation = 8,  // \p{P}
  kSymbol = 16,      // \p{S}
  kSpace = 32,       // White_Space
  kNewline = 64,     // \r or \n
};

// The text in NFC; false, and `out` untouched, where it is so already for all one can see from its bytes, or no UTF-8.
bool compose(std::string_view text, std::string& out);

// Bits of the classes that the character belongs to.
uint8_t classes_of(char32_t code_point);

}  // namespace tenon::text
