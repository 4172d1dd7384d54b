#include "template/numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "template/fault.hpp"
#include "template/unicode.hpp"

namespace tenon::templating {
namespace {

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

std::string formatted(double value, std::chars_format format, int precision) {
  // 309 digits before the point, and what was asked for behind it.
  std::string text(static_cast<size_t>(precision) + 330, '\0');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, precision);
  text.resize(static_cast<size_t>(end.ptr - text.data()));
  return text;
}

// Drops underscores that stand between digits; false if one stands elsewhere.
bool drop_underscores(std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i == 0 || i + 1 == text.size() || !is_word(text[i - 1]) || !is_word(text[i + 1])) return false;
  }
  std::erase(text, '_');
  return true;
}

}  // namespace

double parse_double(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) {
    // from_chars leaves open which way: a number that is not near zero has a positive exponent or many digits.
    const size_t e = text.find_first_of("eE");
    const bool small = e != std::string_view::npos ? text.substr(e + 1).starts_with('-') : text.find('.') < 3;
    value = small ? 0.0 : std::numeric_limits<double>::infinity();
    if (text.starts_with('-')) value = -value;
  }
  return value;
}

std::string float_text(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  std::string result;
  if (text.front() == '-') {
    result += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const std::string_view exponent_text = text.substr(e + 1);
  std::from_chars(exponent_text.data() + (exponent_text.front() == '+' ? 1 : 0),
                  exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(1, text.front());
  if (e > 2) digits += text.substr(2, e - 2);
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    result += digits.front();
    if (n > 1) result.append(1, '.').append(digits, 1);
    const std::string power = std::to_string(std::abs(exponent));
    return result + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return result + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return result + digits.substr(0, static_cast<size_t>(exponent + 1)) + "." +
         digits.substr(static_cast<size_t>(exponent + 1));
}

std::string fixed_text(double value, int precision) {
  return std::isfinite(value) ? formatted(value, std::chars_format::fixed, precision) : not_finite(value);
}

std::string scientific_text(double value, int precision) {
  return std::isfinite(value) ? formatted(value, std::chars_format::scientific, precision) : not_finite(value);
}

std::string general_text(double value, int precision, bool alternate) {
  if (!std::isfinite(value)) return not_finite(value);
  precision = std::max(precision, 1);
  if (!alternate) return formatted(value, std::chars_format::general, precision);
  const std::string scientific = formatted(value, std::chars_format::scientific, precision - 1);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  std::string text = exponent < -4 || exponent >= precision
                         ? scientific
                         : formatted(value, std::chars_format::fixed, precision - 1 - exponent);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), 1, '.');
  return text;
}

std::string digits_text(uint64_t value, unsigned base, bool upper) {
  const std::string_view all = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += all[value % base];
    value /= base;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<double> read_float(std::string_view source) {
  std::string text(strip_begin(strip_end(source)));
  if (!drop_underscores(text)) return std::nullopt;
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  std::string lower(digits);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::string_view body = lower;
    if (body.empty() || body.find_first_not_of("0123456789.e+-") != std::string_view::npos) return std::nullopt;
    if (body.front() == '+' || body.front() == '-') return std::nullopt;
    double parsed = 0;
    const auto result = std::from_chars(body.data(), body.data() + body.size(), parsed);
    if (result.ec == std::errc::invalid_argument || result.ptr != body.data() + body.size()) return std::nullopt;
    value = parse_double(body);
  }
  return negative ? -value : value;
}

std::optional<int64_t> read_integer(std::string_view source, int64_t base) {
  std::string text(strip_begin(strip_end(source)));
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text.front() == '-';
    text.erase(0, 1);
  }
  const auto takes_prefix = [&](char letter, int64_t of_base) {
    if (text.size() < 2 || text[0] != '0' || (text[1] | 0x20) != letter || (base != 0 && base != of_base)) return false;
    text.erase(0, 2);
    if (text.starts_with('_')) text.erase(0, 1);
    base = of_base;
    return true;
  };
  if (!takes_prefix('x', 16) && !takes_prefix('o', 8) && !takes_prefix('b', 2) && base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string::npos) return std::nullopt;
    base = 10;
  }
  if (!drop_underscores(text) || text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  if (negative) text.insert(0, 1, '-');
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, static_cast<int>(base));
  if (parsed.ptr != text.data() + text.size() || parsed.ec == std::errc::invalid_argument) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) throw Fault("a whole number needs more than 64 bits");
  return value;
}

}  // namespace tenon::templating
