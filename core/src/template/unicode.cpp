#include "template/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdio>

#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool contains(std::string_view characters, char32_t c) {
  for (size_t i = 0; i < characters.size();) {
    const text::CodePoint point = text::decode_at(characters, i);
    if (point.value == c) return true;
    i += point.size;
  }
  return false;
}

// The position at which the last character begins.
size_t last_begin(std::string_view text) {
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

template <typename Takes>
std::string_view strip_begin_where(std::string_view text, Takes takes) {
  while (!text.empty()) {
    const text::CodePoint point = text::decode_at(text, 0);
    if (!takes(point.value)) break;
    text.remove_prefix(point.size);
  }
  return text;
}

template <typename Takes>
std::string_view strip_end_where(std::string_view text, Takes takes) {
  while (!text.empty()) {
    const size_t begin = last_begin(text);
    if (!takes(text::decode_at(text, begin).value)) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace

void append_code_point(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t count_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

size_t offset_of(std::string_view text, size_t index, size_t from) {
  size_t i = from;
  for (; index > 0 && i < text.size(); --index) i += text::decode_at(text, i).size;
  return std::min(i, text.size());
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view strip_begin(std::string_view text) { return strip_begin_where(text, is_space); }
std::string_view strip_end(std::string_view text) { return strip_end_where(text, is_space); }
std::string_view strip_begin(std::string_view text, std::string_view characters) {
  return strip_begin_where(text, [&](char32_t c) { return contains(characters, c); });
}
std::string_view strip_end(std::string_view text, std::string_view characters) {
  return strip_end_where(text, [&](char32_t c) { return contains(characters, c); });
}

std::string python_escape(char32_t c) {
  char buffer[16];
  const auto value = static_cast<unsigned>(c);
  std::snprintf(buffer, sizeof(buffer), value < 0x100 ? "\\x%02x" : value < 0x10000 ? "\\u%04x" : "\\U%08x", value);
  return buffer;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

// The properties Other_Uppercase and Other_Lowercase beside the letters' categories: circled and squared letters,
// Roman numerals, and modifier letters.
bool is_upper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2B0 && c <= 0x2B8) ||
         (c >= 0x2C0 && c <= 0x2C1) || (c >= 0x2E0 && c <= 0x2E4) || c == 0x345 || c == 0x37A ||
         (c >= 0x1D2C && c <= 0x1D6A) || c == 0x1D78 || (c >= 0x1D9B && c <= 0x1DBF) || c == 0x2071 || c == 0x207F ||
         (c >= 0x2090 && c <= 0x209C) || (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9) ||
         (c >= 0x2C7C && c <= 0x2C7D) || (c >= 0xA69C && c <= 0xA69D) || c == 0xA770 || (c >= 0xA7F8 && c <= 0xA7F9) ||
         (c >= 0xAB5C && c <= 0xAB5F) || c == 0x10780 || (c >= 0x10783 && c <= 0x107BA && c != 0x10786 && c != 0x107B1);
}
bool is_title(char32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }
bool is_alpha(char32_t c) { return (text::classes_of(c) & text::kLetter) != 0; }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) || c == 0x24FF ||
         (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278A && c <= 0x2792);
}
bool is_numeric(char32_t c) { return (text::classes_of(c) & text::kNumber) != 0 || is_digit(c); }

}  // namespace tenon::templating
