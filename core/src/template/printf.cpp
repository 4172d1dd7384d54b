// `text % value`.
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

constexpr int64_t kMaxPrecision = 10000;

struct Conversion {
  bool left = false, sign = false, blank = false, alternate = false, zero = false;
  int64_t width = 0, precision = -1;  // -1 = none
  char type = 's';
};

class Formatter {
 public:
  Formatter(Runtime& runtime, const Value& text, const Value& value)
      : runtime_(runtime), format_(text_of(text)), markup_(text.as<Text>().markup), value_(value) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) {
        ++at_;
        convert(out);
      }
      runtime_.check_size(out.size());
    }
    const bool all_used = value_.is(Kind::kTuple) ? used_ >= value_.as<Sequence>().items.size() : used_ > 0;
    const bool may_stay =
        value_.is(Kind::kDict) || value_.is(Kind::kList) || value_.is(Kind::kRange) || value_.is_undefined();
    if (!all_used && !may_stay) throw Fault("not all arguments converted during string formatting");
    return out;
  }

 private:
  char take() {
    if (at_ >= format_.size()) throw Fault("incomplete format");
    return format_[at_++];
  }

  Value next_argument() {
    if (keyed_) return key_value_;
    if (value_.is(Kind::kTuple)) {
      const Values& items = value_.as<Sequence>().items;
      if (used_ >= items.size()) throw Fault("not enough arguments for format string");
      return items[used_++];
    }
    if (used_++ > 0) throw Fault("not enough arguments for format string");
    return value_;
  }

  int64_t number_or_star(char& c) {
    int64_t number = 0;
    if (c == '*') {
      const Value value = next_argument();
      if (!value.is_whole()) throw Fault("* wants int");
      c = take();
      return value.as_integer();
    }
    for (; c >= '0' && c <= '9'; c = take()) {
      number = number * 10 + (c - '0');
      if (number > INT32_MAX) throw Fault("width too big");
    }
    return number;
  }

  void convert(std::string& out) {
    Conversion conversion;
    char c = take();
    keyed_ = c == '(';
    if (keyed_) {
      int open = 1;
      const size_t begin = at_;
      for (; open > 0; ++at_) {
        if (at_ >= format_.size()) throw Fault("incomplete format key");
        open += format_[at_] == '(' ? 1 : format_[at_] == ')' ? -1 : 0;
      }
      if (!value_.is(Kind::kDict)) throw Fault("format requires a mapping");
      const std::string_view key = format_.substr(begin, at_ - 1 - begin);
      const Value* found = dict_find(value_.as<Dict>(), key);
      if (!found) throw Fault("there is no key '" + std::string(key) + "' for the format string");
      key_value_ = *found;
      c = take();
    }
    for (bool more = true; more;) {
      switch (c) {
        case '-':
          conversion.left = true;
          break;
        case '+':
          conversion.sign = true;
          break;
        case ' ':
          conversion.blank = true;
          break;
        case '#':
          conversion.alternate = true;
          break;
        case '0':
          conversion.zero = true;
          break;
        default:
          more = false;
      }
      if (more) c = take();
    }
    conversion.width = number_or_star(c);
    if (conversion.width < 0) {
      conversion.left = true;
      conversion.width = -conversion.width;
    }
    if (c == '.') {
      c = take();
      conversion.precision = std::max<int64_t>(0, number_or_star(c));
    }
    if (c == 'h' || c == 'l' || c == 'L') c = take();
    if (c == '%') {
      out += '%';
      return;
    }
    conversion.type = c;
    pad(out, conversion, body(conversion, next_argument()));
  }

  std::string body(const Conversion& conversion, const Value& value) {
    switch (conversion.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = conversion.type == 's' ? to_text(runtime_, value) : to_repr(runtime_, value);
        if (markup_ && !(conversion.type == 's' && value.is_text() && value.as<Text>().markup)) text = escaped(text);
        if (conversion.precision >= 0) text.resize(offset_of(text, static_cast<size_t>(conversion.precision)));
        return text;
      }
      case 'c': {
        if (value.is_text() && count_points(text_of(value)) == 1) return std::string(text_of(value));
        if (!value.is_whole()) throw Fault("%c requires int or char");
        const int64_t c = value.as_integer();
        if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) throw Fault("%c arg not in range(0x110000)");
        std::string text;
        append_code_point(text, static_cast<char32_t>(c));
        return text;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return whole(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(conversion, value);
      default:
        throw Fault(std::string("unsupported format character '") + conversion.type + "'");
    }
  }

  static std::string signed_text(const Conversion& conversion, bool negative, const std::string& digits) {
    std::string text(negative ? "-" : conversion.sign ? "+" : conversion.blank ? " " : "");
    text += digits;
    return text;
  }

  std::string whole(const Conversion& conversion, const Value& value) {
    if (value.is_undefined()) fail_undefined(value);
    if (value.is(Kind::kBigInteger)) return value.as<BigNumber>().digits;
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (!value.is_whole() && !(decimal && value.is(Kind::kFloat)))
      throw Fault(std::string("%") + conversion.type + " format: a number is required, not " +
                  std::string(type_name(value)));
    if (value.is(Kind::kFloat) && !(std::abs(value.as_real()) < 9.2e18))
      throw Fault("cannot convert float " + float_text(value.as_real()) + " to integer");
    const int64_t number = value.is(Kind::kFloat) ? static_cast<int64_t>(value.as_real()) : value.as_integer();
    const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const unsigned base = decimal ? 10 : conversion.type == 'o' ? 8 : 16;
    std::string digits = digits_text(magnitude, base, conversion.type == 'X');
    if (conversion.precision > static_cast<int64_t>(digits.size())) {
      runtime_.check_size(static_cast<uint64_t>(conversion.precision));
      digits.insert(0, static_cast<size_t>(conversion.precision) - digits.size(), '0');
    }
    if (conversion.alternate && !decimal) digits.insert(0, std::string("0") + conversion.type);
    return signed_text(conversion, number < 0, digits);
  }

  std::string real(const Conversion& conversion, const Value& value) {
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number()) throw Fault("must be real number, not " + std::string(type_name(value)));
    const double number = value.as_real();
    if (conversion.precision > kMaxPrecision) throw Fault("precision too big");
    const int precision = conversion.precision < 0 ? 6 : static_cast<int>(conversion.precision);
    const double magnitude = std::abs(number);
    const char kind = static_cast<char>(conversion.type | 0x20);
    std::string digits = kind == 'e'   ? scientific_text(magnitude, precision)
                         : kind == 'f' ? fixed_text(magnitude, precision)
                                       : general_text(magnitude, precision, conversion.alternate);
    if (conversion.alternate && std::isfinite(number) && digits.find('.') == std::string::npos)
      digits.insert(std::min(digits.find('e'), digits.size()), 1, '.');
    if (conversion.type != kind)
      std::transform(digits.begin(), digits.end(), digits.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    return signed_text(conversion, std::signbit(number) && !std::isnan(number), digits);
  }

  void pad(std::string& out, const Conversion& conversion, std::string text) {
    const int64_t missing = conversion.width - static_cast<int64_t>(count_points(text));
    if (missing > 0) {
      runtime_.check_size(static_cast<uint64_t>(missing));
      const auto n = static_cast<size_t>(missing);
      const bool numeric = std::string_view("diuoxXeEfFgG").find(conversion.type) != std::string_view::npos;
      if (conversion.left) {
        text.append(n, ' ');
      } else if (conversion.zero && numeric) {
        size_t at = text.find_first_of("+- ") == 0 ? 1 : 0;
        if (conversion.alternate && std::string_view("oxX").find(conversion.type) != std::string_view::npos) at += 2;
        text.insert(at, n, '0');
      } else {
        text.insert(0, n, ' ');
      }
    }
    out += text;
  }

  Runtime& runtime_;
  std::string_view format_;
  bool markup_;
  const Value& value_;
  size_t at_ = 0, used_ = 0;
  bool keyed_ = false;
  Value key_value_;
};

}  // namespace

std::string percent_format(Runtime& runtime, const Value& text, const Value& value) {
  return Formatter(runtime, text, value).run();
}

}  // namespace tenon::templating
