// numbers.hpp: numbers as Python prints and reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::templating {

// The nearest double; ±infinity where that is what decimal text rounds to. `text` is a number in C's notation.
double parse_double(std::string_view text);

// repr(): the shortest decimal that reads back as `value`, "1.0", "1e+16", "inf", "nan".
std::string float_text(double value);

// `%.{precision}f`, `e` and `g`, in lower case; `alternate` keeps what # keeps.
std::string fixed_text(double value, int precision);
std::string scientific_text(double value, int precision);
std::string general_text(double value, int precision, bool alternate = false);

// The digits of a number in base 2 to 16, in lower or upper case.
std::string digits_text(uint64_t value, unsigned base, bool upper = false);

// float(text) and int(text, base): white space around, a sign, underscores between digits.
std::optional<double> read_float(std::string_view text);
// Throws Fault(kValue) beyond 64 bits.
std::optional<int64_t> read_integer(std::string_view text, int64_t base = 10);

}  // namespace tenon::templating
