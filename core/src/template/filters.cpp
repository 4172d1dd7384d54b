// Filters for single values, and the table of all filters.
#include <cmath>
#include <limits>
#include <unordered_map>

#include "template/builtins.hpp"
#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

constexpr double kInt64End = 9223372036854775808.0;

Value whole_of(double value) {
  if (!(value >= -kInt64End && value < kInt64End))
    throw Fault("a whole number needs more than 64 bits: that is not supported");
  return Value::integer(static_cast<int64_t>(value));
}

Value absolute(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "abs");
  if (input.is_undefined()) fail_undefined(input);
  if (input.is(Kind::kFloat)) return Value::real(std::abs(input.as_real()));
  if (!input.is_whole()) throw Fault("bad operand type for abs(): '" + std::string(type_name(input)) + "'");
  return input.as_integer() < 0 ? negate(runtime, input) : plus(input);
}

Value default_value(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [fallback, boolean] = bind(arguments, "default", {"default_value", "boolean"}, 0);
  if (!input.is_undefined() && !(truthy(boolean) && !truthy(input))) return input;
  return fallback.is(Kind::kMissing) ? runtime.text("") : fallback;
}

Value to_integer(Runtime&, const Value& input, Arguments& arguments) {
  const auto [fallback, base] = bind(arguments, "int", {"default", "base"}, 0);
  const Value otherwise = fallback.is(Kind::kMissing) ? Value::integer(0) : fallback;
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_whole()) return Value::integer(input.as_integer());
  if (input.is(Kind::kBigInteger)) return input;
  if (input.is(Kind::kFloat)) {
    if (std::isnan(input.as_real())) return otherwise;
    if (std::isinf(input.as_real())) throw Fault("cannot convert float infinity to integer");
    return whole_of(std::trunc(input.as_real()));
  }
  if (!input.is_text()) return otherwise;
  if (const auto value = read_integer(text_of(input), whole_argument(base, "int", 10))) return Value::integer(*value);
  const auto real = read_float(text_of(input));
  return real && std::isfinite(*real) ? whole_of(std::trunc(*real)) : otherwise;
}

Value to_real(Runtime&, const Value& input, Arguments& arguments) {
  const auto [fallback] = bind(arguments, "float", {"default"}, 0);
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_number()) return Value::real(input.as_real());
  if (input.is(Kind::kBigInteger)) return Value::real(parse_double(input.as<BigNumber>().digits));
  if (input.is_text()) {
    if (const auto value = read_float(text_of(input))) return Value::real(*value);
  }
  return fallback.is(Kind::kMissing) ? Value::real(0) : fallback;
}

// To the nearest, on a tie to the even digit, of the number's exact decimal value.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 330) return value;
  if (precision < -310) return std::copysign(0.0, value);
  if (precision >= 0) return parse_double(fixed_text(value, static_cast<int>(precision)));
  const long double unit = std::pow(10.0L, static_cast<long double>(-precision));
  return static_cast<double>(std::nearbyint(static_cast<long double>(value) / unit) * unit);
}

Value rounded_whole(int64_t value, int64_t precision) {
  if (precision >= 0) return Value::integer(value);
  if (precision < -18) return Value::integer(0);
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  int64_t result = value - rest;
  if (rest > unit / 2 || (rest == unit / 2 && (result / unit) % 2 != 0)) {
    if (__builtin_add_overflow(result, unit, &result)) throw Fault("a whole number needs more than 64 bits");
  }
  return Value::integer(result);
}

Value round_number(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [precision_value, method_value] = bind(arguments, "round", {"precision", "method"}, 0);
  const std::string method = method_value.is(Kind::kMissing) ? "common" : to_text(runtime, method_value);
  const int64_t precision = whole_argument(precision_value, "round", 0);
  if (method != "common" && method != "ceil" && method != "floor") throw Fault("method must be common, ceil or floor");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) throw Fault("type " + std::string(type_name(input)) + " doesn't define __round__ method");
  if (method == "common") {
    if (input.is_whole()) return rounded_whole(input.as_integer(), precision);
    return Value::real(rounded(input.as_real(), precision));
  }
  const Value unit = binary(runtime, Operator::kPower, Value::integer(10), Value::integer(precision));
  const Value scaled = binary(runtime, Operator::kMultiply, input, unit);
  Value whole = scaled;
  if (scaled.is(Kind::kFloat)) {
    if (!std::isfinite(scaled.as_real()))
      throw Fault("cannot convert float " + float_text(scaled.as_real()) + " to integer");
    whole = whole_of(method == "ceil" ? std::ceil(scaled.as_real()) : std::floor(scaled.as_real()));
  }
  return binary(runtime, Operator::kDivide, whole, unit);
}

Value count(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "length");
  return Value::integer(length(runtime, input));
}

Value json(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [ensure_ascii, indent, separators, sort_keys] =
      bind(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ensure_ascii = truthy(ensure_ascii);
  style.sort_keys = truthy(sort_keys);
  if (!indent.is(Kind::kMissing) && !indent.is_none()) {
    style.pretty = true;
    style.item_separator.assign(1, ',');
    if (indent.is_text()) {
      style.indent = text_of(indent);
    } else {
      const int64_t width = std::max<int64_t>(0, whole_argument(indent, "tojson", 0));
      runtime.check_size(static_cast<uint64_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (!separators.is(Kind::kMissing) && !separators.is_none()) {
    const Values pair = to_values(runtime, separators);
    if (pair.size() != 2) throw Fault("tojson(): separators must be two strings");
    style.item_separator = text_argument(pair[0], "tojson");
    style.key_separator = text_argument(pair[1], "tojson");
  }
  return runtime.text(to_json(runtime, input, style));
}

Value attribute(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [name] = bind(arguments, "attr", {"name"}, 1);
  const std::string_view wanted = text_argument(name, "attr");
  if (input.is(Kind::kDict) && !find_method(Kind::kDict, wanted))
    return runtime.undefined("'dict object' has no attribute '" + std::string(wanted) + "'");
  return get_attribute(runtime, input, wanted);
}

constexpr FilterSpec kFilters[] = {
    {"abs", absolute},       {"default", default_value}, {"d", default_value}, {"int", to_integer}, {"float", to_real},
    {"round", round_number}, {"length", count},          {"count", count},     {"tojson", json},    {"attr", attribute},
};

}  // namespace

const FilterSpec* find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, const FilterSpec*> table = [] {
    std::unordered_map<std::string_view, const FilterSpec*> all;
    for (std::span<const FilterSpec> filters :
         {std::span<const FilterSpec>(kFilters), text_filters(), sequence_filters()})
      for (const FilterSpec& filter : filters) all.emplace(filter.name, &filter);
    return all;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tenon::templating
