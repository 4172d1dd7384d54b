// Truth, equality, order, arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>

#include "template/builtins.hpp"
#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

[[noreturn]] void fail_range() { throw Fault("a whole number needs more than 64 bits: that is not supported"); }

std::string_view sign_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
    case Operator::kPlus:
      return "+";
    case Operator::kSubtract:
    case Operator::kNegate:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    default:
      return "";
  }
}

int64_t floor_divide(int64_t left, int64_t right) {
  if (left == std::numeric_limits<int64_t>::min() && right == -1) fail_range();
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t left, int64_t right) {
  if (right == -1) return 0;
  const int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

// Python's: the sign of the divisor.
double modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  if ((rest < 0) != (right < 0)) rest += right;
  return rest;
}

double floor_divide(double left, double right) {
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Fault("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) fail_range();
    exponent >>= 1;
    if (exponent == 0) return Value::integer(result);
    if (__builtin_mul_overflow(base, base, &base)) {
      if (result == 0) return Value::integer(0);
      fail_range();
    }
  }
}

Value integer_operation(Operator op, int64_t left, int64_t right) {
  int64_t result = 0;
  if (right == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo))
    throw Fault(op == Operator::kDivide ? "division by zero" : "integer division or modulo by zero");
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(left, right, &result)) fail_range();
      return Value::integer(result);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(left, right, &result)) fail_range();
      return Value::integer(result);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(left, right, &result)) fail_range();
      return Value::integer(result);
    case Operator::kDivide:
      return Value::real(static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case Operator::kFloorDivide:
      return Value::integer(floor_divide(left, right));
    case Operator::kModulo:
      return Value::integer(modulo(left, right));
    default:
      return integer_power(left, right);
  }
}

Value real_operation(Operator op, double left, double right) {
  if (right == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo))
    throw Fault(op == Operator::kDivide ? "float division by zero" : "float modulo by zero");
  switch (op) {
    case Operator::kAdd:
      return Value::real(left + right);
    case Operator::kSubtract:
      return Value::real(left - right);
    case Operator::kMultiply:
      return Value::real(left * right);
    case Operator::kDivide:
      return Value::real(left / right);
    case Operator::kFloorDivide:
      return Value::real(floor_divide(left, right));
    case Operator::kModulo:
      return Value::real(modulo(left, right));
    default:
      break;
  }
  if (left == 0 && right < 0) throw Fault("0.0 cannot be raised to a negative power");
  if (left < 0 && std::isfinite(left) && std::isfinite(right) && right != std::floor(right))
    throw Fault("complex numbers are not supported");
  const double result = std::pow(left, right);
  if (std::isinf(result) && std::isfinite(left) && std::isfinite(right))
    throw Fault("(34, 'Numerical result out of range')");
  return Value::real(result);
}

Value joined_texts(Runtime& runtime, const Text& left, const Text& right) {
  const bool markup = left.markup || right.markup;
  const std::string& first = left.text;
  const std::string& second = right.text;
  runtime.check_size(first.size() + second.size());
  runtime.step_text(first.size() + second.size());
  if (!markup) return runtime.text(first + second);
  return runtime.text((left.markup ? first : escaped(first)) + (right.markup ? second : escaped(second)), true);
}

Value repeated(Runtime& runtime, const Value& value, int64_t times) {
  const auto n = static_cast<uint64_t>(std::max<int64_t>(0, times));
  const auto total = [&](uint64_t size) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(size, n, &bytes)) bytes = std::numeric_limits<uint64_t>::max();
    runtime.check_size(bytes);
    runtime.step_text(bytes);
  };
  if (value.is_text()) {
    const Text& text = value.as<Text>();
    total(text.text.size());
    std::string result;
    if (!text.text.empty()) {
      result.reserve(text.text.size() * n);
      for (uint64_t i = 0; i < n; ++i) result += text.text;
    }
    return runtime.text(std::move(result), text.markup);
  }
  const Values& items = value.as<Sequence>().items;
  total(items.size() * sizeof(Value));
  Values result;
  if (!items.empty()) {
    result.reserve(items.size() * n);
    for (uint64_t i = 0; i < n; ++i) result.insert(result.end(), items.begin(), items.end());
  }
  return value.is(Kind::kList) ? runtime.list(std::move(result)) : runtime.tuple(std::move(result));
}

bool is_sequence(const Value& value) { return value.is(Kind::kList) || value.is(Kind::kTuple); }

Order order_of(long double left, long double right) {
  return left < right ? Order::kLess : left > right ? Order::kGreater : left == right ? Order::kEqual : Order::kNone;
}

// -1, 0, 1 by value; the digits may have a sign.
int compare_digits(const std::string& left, const std::string& right) {
  const bool negative = left.starts_with('-');
  if (negative != right.starts_with('-')) return negative ? -1 : 1;
  const int by_size = left.size() == right.size() ? left.compare(right) : left.size() < right.size() ? -1 : 1;
  const int magnitude = by_size < 0 ? -1 : by_size > 0 ? 1 : 0;
  return negative ? -magnitude : magnitude;
}

}  // namespace

void fail_undefined(const Value& value) {
  const Object* reason = value.object();
  throw Fault(reason ? static_cast<const Reason*>(reason)->message : "a value is undefined");
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return value.as_integer() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    case Kind::kText:
      return !text_of(value).empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.as<Sequence>().items.empty();
    case Kind::kDict:
      return !value.as<Dict>().entries.empty();
    case Kind::kDictView:
      return truthy(value.as<DictView>().dict);
    case Kind::kRange:
      return value.as<Range>().size() != 0;
    default:
      return true;
  }
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_number() && right.is_number()) {
    if (left.is_whole() && right.is_whole()) return left.as_integer() == right.as_integer();
    const auto wide = [](const Value& v) -> long double {
      return v.is_whole() ? static_cast<long double>(v.as_integer()) : static_cast<long double>(v.as_real());
    };
    return wide(left) == wide(right);
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kText:
      return text_of(left) == text_of(right);
    case Kind::kBigInteger:
      return left.as<BigNumber>().digits == right.as<BigNumber>().digits;
    case Kind::kList:
    case Kind::kTuple: {
      if (left.object() == right.object()) return true;
      runtime.check_stack();
      const Values& first = left.as<Sequence>().items;
      const Values& second = right.as<Sequence>().items;
      if (first.size() != second.size()) return false;
      for (size_t i = 0; i < first.size(); ++i)
        if (!equal(runtime, first[i], second[i])) return false;
      return true;
    }
    case Kind::kDict: {
      if (left.object() == right.object()) return true;
      runtime.check_stack();
      const Dict& first = left.as<Dict>();
      const Dict& second = right.as<Dict>();
      if (first.entries.size() != second.entries.size()) return false;
      for (const auto& [key, value] : first.entries) {
        const Value* other = dict_find(runtime, second, key);
        if (!other || !equal(runtime, value, *other)) return false;
      }
      return true;
    }
    case Kind::kRange: {
      const Range& first = left.as<Range>();
      const Range& second = right.as<Range>();
      if (first.size() != second.size()) return false;
      if (first.size() == 0) return true;
      return first.start == second.start && (first.size() == 1 || first.step == second.step);
    }
    default:
      return left.object() == right.object();
  }
}

Order compare(Runtime& runtime, const Value& left, const Value& right, std::string_view sign) {
  runtime.step();
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_whole() && right.is_whole()) {
      const int64_t first = left.as_integer(), second = right.as_integer();
      return first < second ? Order::kLess : first > second ? Order::kGreater : Order::kEqual;
    }
    return order_of(left.is_whole() ? static_cast<long double>(left.as_integer()) : left.as_real(),
                    right.is_whole() ? static_cast<long double>(right.as_integer()) : right.as_real());
  }
  if (left.is_text() && right.is_text()) {
    runtime.step_text(std::min(text_of(left).size(), text_of(right).size()));
    const int order = text_of(left).compare(text_of(right));  // bytes of UTF-8 sort as their characters do
    return order < 0 ? Order::kLess : order > 0 ? Order::kGreater : Order::kEqual;
  }
  if (is_sequence(left) && left.kind() == right.kind()) {
    runtime.check_stack();
    const Values& first = left.as<Sequence>().items;
    const Values& second = right.as<Sequence>().items;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i)
      if (!equal(runtime, first[i], second[i])) return compare(runtime, first[i], second[i], sign);
    return first.size() < second.size() ? Order::kLess : first.size() > second.size() ? Order::kGreater : Order::kEqual;
  }
  if (left.is(Kind::kBigInteger) || right.is(Kind::kBigInteger)) {
    const auto digits = [](const Value& v) {
      return v.is(Kind::kBigInteger) ? v.as<BigNumber>().digits : std::to_string(v.as_integer());
    };
    if ((left.is_whole() || left.is(Kind::kBigInteger)) && (right.is_whole() || right.is(Kind::kBigInteger))) {
      const int order = compare_digits(digits(left), digits(right));
      return order < 0 ? Order::kLess : order > 0 ? Order::kGreater : Order::kEqual;
    }
  }
  throw Fault("'" + std::string(sign) + "' not supported between instances of '" + std::string(type_name(left)) +
              "' and '" + std::string(type_name(right)) + "'");
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kText:
      if (item.is_undefined() || !item.is_text())
        throw Fault("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      runtime.step_text(text_of(container).size());
      return text_of(container).find(text_of(item)) != std::string_view::npos;
    case Kind::kDict:
      return dict_find(runtime, container.as<Dict>(), item) != nullptr;
    case Kind::kDictView:
      if (container.as<DictView>().what == DictView::What::kKeys)
        return dict_find(runtime, container.as<DictView>().dict.as<Dict>(), item) != nullptr;
      break;
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kIterator:
      break;
    default:
      throw Fault("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
  Cursor cursor(runtime, container);
  for (Value other; cursor.next(runtime, other);)
    if (equal(runtime, other, item)) return true;
  return false;
}

bool compare_with(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return equal(runtime, left, right);
    case Operator::kNotEqual:
      return !equal(runtime, left, right);
    case Operator::kIn:
      return contains(runtime, right, left);
    case Operator::kNotIn:
      return !contains(runtime, right, left);
    default:
      break;
  }
  const Order order = compare(runtime, left, right, sign_of(op));
  switch (op) {
    case Operator::kLess:
      return order == Order::kLess;
    case Operator::kLessEqual:
      return order == Order::kLess || order == Order::kEqual;
    case Operator::kGreater:
      return order == Order::kGreater;
    default:
      return order == Order::kGreater || order == Order::kEqual;
  }
}

Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (left.is_whole() && right.is_whole()) return integer_operation(op, left.as_integer(), right.as_integer());
  if (left.is_number() && right.is_number()) return real_operation(op, left.as_real(), right.as_real());
  if (op == Operator::kModulo && left.is_text())
    return runtime.text(percent_format(runtime, left, right), left.as<Text>().markup);
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  if (op == Operator::kAdd && left.is_text() && right.is_text())
    return joined_texts(runtime, left.as<Text>(), right.as<Text>());
  if (op == Operator::kAdd && is_sequence(left) && left.kind() == right.kind()) {
    Values items = left.as<Sequence>().items;
    const Values& more = right.as<Sequence>().items;
    runtime.step(items.size() + more.size());
    items.insert(items.end(), more.begin(), more.end());
    return left.is(Kind::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
  }
  if (op == Operator::kMultiply) {
    if ((left.is_text() || is_sequence(left)) && right.is_whole()) return repeated(runtime, left, right.as_integer());
    if ((right.is_text() || is_sequence(right)) && left.is_whole()) return repeated(runtime, right, left.as_integer());
  }
  if (left.is(Kind::kBigInteger) || right.is(Kind::kBigInteger)) fail_range();
  throw Fault("unsupported operand type(s) for " + std::string(sign_of(op)) + ": '" + std::string(type_name(left)) +
              "' and '" + std::string(type_name(right)) + "'");
}

Value negate(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real());
  if (value.is(Kind::kBigInteger)) {
    const std::string& digits = value.as<BigNumber>().digits;
    if (digits == "9223372036854775808") return Value::integer(std::numeric_limits<int64_t>::min());
    return runtime.big_integer(digits.starts_with('-') ? digits.substr(1) : "-" + digits);
  }
  if (!value.is_whole()) throw Fault("bad operand type for unary -: '" + std::string(type_name(value)) + "'");
  if (value.as_integer() == std::numeric_limits<int64_t>::min()) return runtime.big_integer("9223372036854775808");
  return Value::integer(-value.as_integer());
}

Value plus(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kFloat) || value.is(Kind::kBigInteger)) return value;
  if (!value.is_whole()) throw Fault("bad operand type for unary +: '" + std::string(type_name(value)) + "'");
  return Value::integer(value.as_integer());
}

}  // namespace tenon::templating
