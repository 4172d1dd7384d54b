// str.format().
#include <algorithm>
#include <cmath>

#include "template/builtins.hpp"
#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

constexpr int kMaxDepth = 2;  // of fields inside a field's specification
constexpr int64_t kMaxPrecision = 10000;

// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false;
  int64_t width = 0, precision = -1;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(std::string_view text) {
  Spec spec;
  const std::string whole(text);
  const auto next = [&]() -> char { return text.empty() ? '\0' : text.front(); };
  if (!text.empty()) {
    const size_t first = text::decode_at(text, 0).size;
    if (first < text.size() && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      text.remove_prefix(first + 1);
    } else if (is_align(next())) {
      spec.align = next();
      text.remove_prefix(1);
    }
  }
  if (next() == '+' || next() == '-' || next() == ' ') {
    spec.sign = next();
    text.remove_prefix(1);
  }
  if (next() == '#') {
    spec.alternate = true;
    text.remove_prefix(1);
  }
  if (next() == '0') {
    if (!spec.align) {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    text.remove_prefix(1);
  }
  const auto number = [&] {
    int64_t value = 0;
    while (next() >= '0' && next() <= '9') {
      value = value * 10 + (next() - '0');
      if (value > INT32_MAX) throw Fault("Too many decimal digits in format string");
      text.remove_prefix(1);
    }
    return value;
  };
  spec.width = number();
  if (next() == ',' || next() == '_') {
    spec.grouping = next();
    text.remove_prefix(1);
  }
  if (next() == '.') {
    text.remove_prefix(1);
    if (next() < '0' || next() > '9') throw Fault("Format specifier missing precision");
    spec.precision = number();
  }
  if (text.size() > 1) throw Fault("Invalid format specifier '" + whole + "'");
  spec.type = next();
  return spec;
}

std::string padded(Runtime& runtime, const Spec& spec, std::string text, size_t sign_size, char default_align) {
  const int64_t missing = spec.width - static_cast<int64_t>(count_points(text));
  if (missing <= 0) return text;
  runtime.check_size(static_cast<uint64_t>(missing) * spec.fill.size());
  const char align = spec.align ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string result = align == '=' ? text.substr(0, sign_size) : "";
  for (int64_t i = 0; i < left; ++i) result += spec.fill;
  result += align == '=' ? text.substr(sign_size) : text;
  for (int64_t i = left; i < missing; ++i) result += spec.fill;
  return result;
}

// Puts a separator between groups of the digits before the point.
std::string grouped(std::string digits, char separator, size_t group) {
  if (!separator) return digits;
  size_t end = 0;
  while (end < digits.size() && std::isalnum(static_cast<unsigned char>(digits[end])) &&
         (group == 4 || digits[end] != 'e'))
    ++end;
  for (size_t at = end; at > group; at -= group) digits.insert(at - group, 1, separator);
  return digits;
}

std::string finish_number(Runtime& runtime, const Spec& spec, bool negative, const std::string& prefix,
                          std::string digits, size_t group) {
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.grouping && spec.align == '=' && spec.fill == "0") {  // zeros are grouped too
    const auto wanted = [&](const std::string& text) {
      return static_cast<int64_t>(sign.size() + prefix.size() + grouped(text, spec.grouping, group).size());
    };
    runtime.check_size(static_cast<uint64_t>(spec.width));
    while (wanted(digits) < spec.width) digits.insert(0, 1, '0');
  }
  return padded(runtime, spec, sign + prefix + grouped(std::move(digits), spec.grouping, group),
                sign.size() + prefix.size(), '>');
}

std::string format_real(Runtime& runtime, const Spec& spec, double value) {
  if (spec.precision > kMaxPrecision) throw Fault("precision too big");
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const double magnitude = std::abs(value);
  std::string digits;
  switch (spec.type) {
    case 'f':
    case 'F':
      digits = fixed_text(magnitude, precision);
      break;
    case 'e':
    case 'E':
      digits = scientific_text(magnitude, precision);
      break;
    case 'g':
    case 'G':
    case 'n':
      digits = general_text(magnitude, precision, spec.alternate);
      break;
    case '%':
      digits = fixed_text(magnitude * 100, precision) + "%";
      break;
    case '\0':
      if (spec.precision < 0) {
        digits = float_text(magnitude);
      } else {  // like g, but with a digit behind the point, and so with an exponent earlier
        digits = general_text(magnitude, precision);
        const std::string scientific = scientific_text(magnitude, std::max(precision, 1) - 1);
        const bool finite = std::isfinite(value);
        if (finite && std::atoi(scientific.c_str() + scientific.find('e') + 1) + 1 > std::max(precision, 1) - 1 &&
            digits.find('e') == std::string::npos) {
          const size_t e = scientific.find('e');
          std::string mantissa = scientific.substr(0, e);
          if (mantissa.find('.') != std::string::npos) {
            while (mantissa.ends_with('0')) mantissa.pop_back();
            if (mantissa.ends_with('.')) mantissa.pop_back();
          }
          digits = mantissa + scientific.substr(e);
        } else if (finite && digits.find_first_of(".e") == std::string::npos) {
          digits += ".0";
        }
      }
      break;
    default:
      throw Fault(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
  }
  if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
  return finish_number(runtime, spec, std::signbit(value) && !std::isnan(value), "", std::move(digits), 3);
}

std::string format_whole(Runtime& runtime, const Spec& spec, const Value& value) {
  if (spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos)
    return format_real(runtime, spec, value.as_real());
  if (spec.precision >= 0) throw Fault("Precision not allowed in integer format specifier");
  const int64_t number = value.as_integer();
  if (spec.type == 'c') {
    if (number < 0 || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF))
      throw Fault("%c arg not in range(0x110000)");
    std::string text;
    append_code_point(text, static_cast<char32_t>(number));
    return padded(runtime, spec, text, 0, '<');
  }
  const unsigned base = spec.type == 'b'                                     ? 2
                        : spec.type == 'o'                                   ? 8
                        : spec.type == 'x' || spec.type == 'X'               ? 16
                        : !spec.type || spec.type == 'd' || spec.type == 'n' ? 10
                                                                             : 0;
  if (base == 0) throw Fault(std::string("Unknown format code '") + spec.type + "' for object of type 'int'");
  const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = digits_text(magnitude, base, spec.type == 'X');
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + spec.type : "";
  return finish_number(runtime, spec, number < 0, prefix, std::move(digits), base == 10 ? 3 : 4);
}

std::string format_text(Runtime& runtime, const Spec& spec, std::string text) {
  if (spec.type && spec.type != 's')
    throw Fault(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  if (spec.align == '=' && spec.fill != "0") throw Fault("'=' alignment not allowed in string format specifier");
  if (spec.precision >= 0) text.resize(offset_of(text, static_cast<size_t>(spec.precision)));
  return padded(runtime, spec, std::move(text), 0, '<');
}

std::string format_value(Runtime& runtime, const Value& value, const std::string& spec_text) {
  if (value.is(Kind::kBool) && spec_text.empty()) return to_text(runtime, value);
  if (value.is_whole()) return format_whole(runtime, parse_spec(spec_text), value);
  if (value.is(Kind::kFloat)) return format_real(runtime, parse_spec(spec_text), value.as_real());
  if (value.is_text()) return format_text(runtime, parse_spec(spec_text), std::string(text_of(value)));
  if (!spec_text.empty())
    throw Fault("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
  return to_text(runtime, value);
}

class Formatter {
 public:
  Formatter(Runtime& runtime, const Value& text, const Arguments& arguments)
      : runtime_(runtime), markup_(text.as<Text>().markup), arguments_(arguments) {}

  std::string run(std::string_view format, int depth) {
    std::string out;
    for (size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      if (c != '{' && c != '}') {
        out += c;
        continue;
      }
      if (i + 1 < format.size() && format[i + 1] == c) {
        out += c;
        ++i;
        continue;
      }
      if (c == '}') throw Fault("Single '}' encountered in format string");
      int open = 1;
      size_t end = i + 1;
      for (; end < format.size(); ++end) {
        open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end >= format.size())
        throw Fault(i + 1 == format.size() ? "Single '{' encountered in format string"
                                           : "expected '}' before end of string");
      out += field(format.substr(i + 1, end - i - 1), depth);
      runtime_.check_size(out.size());
      i = end;
    }
    return out;
  }

 private:
  std::string field(std::string_view text, int depth) {
    if (depth > kMaxDepth) throw Fault("Max string recursion exceeded");
    size_t end = 0;
    for (bool in_brackets = false; end < text.size(); ++end) {
      if (text[end] == '[') in_brackets = true;
      if (text[end] == ']') in_brackets = false;
      if (!in_brackets && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value = lookup(text.substr(0, end));
    std::string_view rest = text.substr(end);
    char conversion = '\0';
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        throw Fault("expected ':' after conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    const std::string spec = run(rest, depth + 1);
    if (conversion == 'r' || conversion == 'a')
      value = runtime_.text(to_repr(runtime_, value));
    else if (conversion == 's')
      value = soft_text(runtime_, value);
    else if (conversion)
      throw Fault(std::string("Unknown conversion specifier ") + conversion);
    const bool safe = value.is_text() && value.as<Text>().markup;
    std::string shown = format_value(runtime_, value, spec);
    return markup_ && !safe ? escaped(shown) : shown;
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, first_end));
    for (size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) throw Fault("Empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const size_t end = name.find(']', at);
        if (end == std::string_view::npos) throw Fault("Missing ']' in format string");
        const std::string key(name.substr(at + 1, end - at - 1));
        const std::optional<size_t> index = number(key);
        value = get_item(runtime_, value, index ? Value::integer(static_cast<int64_t>(*index)) : runtime_.text(key));
        at = end + 1;
      } else {
        throw Fault("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static std::optional<size_t> number(std::string_view text) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
    return static_cast<size_t>(std::atoi(std::string(text).c_str()));
  }

  Value first(std::string_view name) {
    if (name.empty() || number(name)) {
      const bool automatic = name.empty();
      if (numbering_ != Numbering::kNone && (numbering_ == Numbering::kAutomatic) != automatic)
        throw Fault("cannot switch between automatic field numbering and manual field specification");
      numbering_ = automatic ? Numbering::kAutomatic : Numbering::kManual;
      const size_t index = automatic ? next_++ : *number(name);
      if (index >= arguments_.positional.size())
        throw Fault("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      return arguments_.positional[index];
    }
    for (const auto& [other, value] : arguments_.named)
      if (other == name) return value;
    throw Fault("there is no argument '" + std::string(name) + "' for the format string");
  }

  enum class Numbering { kNone, kAutomatic, kManual };
  Runtime& runtime_;
  bool markup_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kNone;
  size_t next_ = 0;
};

}  // namespace

std::string brace_format(Runtime& runtime, const Value& text, const Arguments& arguments) {
  return Formatter(runtime, text, arguments).run(text_of(text), 1);
}

}  // namespace tenon::templating
