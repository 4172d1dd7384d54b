// unicode.hpp: text as Python sees it: a row of characters. All text here is well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::templating {

void append_code_point(std::string& text, char32_t c);
size_t count_points(std::string_view text);
bool is_ascii(std::string_view text);

// The byte position of character `index`, counted from byte position `from`; text.size() if there are fewer.
size_t offset_of(std::string_view text, size_t index, size_t from = 0);

// str.isspace(): more than the property White_Space, since it has the information separators U+001C to U+001F.
bool is_space(char32_t c);
std::string_view strip_begin(std::string_view text);
std::string_view strip_end(std::string_view text);
// Strips characters that occur in `characters`.
std::string_view strip_begin(std::string_view text, std::string_view characters);
std::string_view strip_end(std::string_view text, std::string_view characters);

// "\xe9", "\u20ac", "\U0001f600": as Python escapes what it does not print.
std::string python_escape(char32_t c);
bool is_printable(char32_t c);

// Python's names of character classes.
bool is_cased(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);

// Full mappings: "ß" has "SS" as upper case.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        // words as str.title() sees them
std::string to_capitalized(std::string_view text);  // str.capitalize()
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

}  // namespace tenon::templating
