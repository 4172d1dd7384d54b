// What may follow `is`.
#include <unordered_map>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

using Test = bool (*)(Runtime&, const Value&, Arguments&);

template <Kind... kKinds>
bool is_kind(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "this test");
  return (value.is(kKinds) || ...);
}

template <bool kTrue>
bool is_bool(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "this test");
  return value.is(Kind::kBool) && value.as_bool() == kTrue;
}

bool is_defined(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "defined");
  return !value.is_undefined();
}

template <Operator kOp>
bool compares(Runtime& runtime, const Value& value, Arguments& arguments) {
  const auto [other] = bind(arguments, "this test", {""}, 1);
  return compare_with(runtime, kOp, value, other);
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t wanted) {
  return equal(runtime, binary(runtime, Operator::kModulo, value, divisor), Value::integer(wanted));
}

template <int64_t kRest>
bool has_parity(Runtime& runtime, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "this test");
  return remainder_is(runtime, value, Value::integer(2), kRest);
}

bool divisible_by(Runtime& runtime, const Value& value, Arguments& arguments) {
  const auto [divisor] = bind(arguments, "divisibleby", {"num"}, 1);
  return remainder_is(runtime, value, divisor, 0);
}

template <bool kUpper>
bool has_case(Runtime& runtime, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, kUpper ? "upper" : "lower");
  const std::string text = to_text(runtime, value);
  runtime.step_text(text.size());
  bool found = false;
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    i += point.size;
    if (kUpper ? is_upper(point.value) : is_lower(point.value))
      found = true;
    else if (is_cased(point.value))
      return false;
  }
  return found;
}

bool same_as(Runtime&, const Value& value, Arguments& arguments) {
  const auto [other] = bind(arguments, "sameas", {"other"}, 1);
  if (value.kind() != other.kind()) return false;
  if (value.object() || other.object()) return value.object() == other.object();
  return value.is_none() || (value.is_whole() && value.as_integer() == other.as_integer());
}

bool is_in(Runtime& runtime, const Value& value, Arguments& arguments) {
  const auto [container] = bind(arguments, "in", {"seq"}, 1);
  return contains(runtime, container, value);
}

bool is_escaped(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "escaped");
  return value.is_text() && value.as<Text>().markup;
}

bool is_filter(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "filter");
  return value.is_text() && find_filter(text_of(value)) != nullptr;
}

bool is_test(Runtime&, const Value& value, Arguments& arguments) {
  expect_no_arguments(arguments, "test");
  return value.is_text() && find_test(text_of(value)) != nullptr;
}

constexpr TestSpec kTests[] = {
    {"defined", is_defined},
    {"undefined", is_kind<Kind::kMissing, Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"integer", is_kind<Kind::kInteger, Kind::kBigInteger>},
    {"float", is_kind<Kind::kFloat>},
    {"number", is_kind<Kind::kBool, Kind::kInteger, Kind::kBigInteger, Kind::kFloat>},
    {"string", is_kind<Kind::kText>},
    {"mapping", is_kind<Kind::kDict>},
    {"sequence",
     is_kind<Kind::kMissing, Kind::kUndefined, Kind::kText, Kind::kList, Kind::kTuple, Kind::kDict, Kind::kRange>},
    {"iterable", is_kind<Kind::kMissing, Kind::kUndefined, Kind::kText, Kind::kList, Kind::kTuple, Kind::kDict,
                         Kind::kDictView, Kind::kRange, Kind::kIterator, Kind::kLoop>},
    {"callable", is_kind<Kind::kMissing, Kind::kUndefined, Kind::kMacro, Kind::kFunction, Kind::kMethod, Kind::kLoop,
                         Kind::kJoiner>},
    {"odd", has_parity<1>},
    {"even", has_parity<0>},
    {"divisibleby", divisible_by},
    {"lower", has_case<false>},
    {"upper", has_case<true>},
    {"sameas", same_as},
    {"in", is_in},
    {"escaped", is_escaped},
    {"filter", is_filter},
    {"test", is_test},
    {"==", compares<Operator::kEqual>},
    {"eq", compares<Operator::kEqual>},
    {"equalto", compares<Operator::kEqual>},
    {"!=", compares<Operator::kNotEqual>},
    {"ne", compares<Operator::kNotEqual>},
    {">", compares<Operator::kGreater>},
    {"gt", compares<Operator::kGreater>},
    {"greaterthan", compares<Operator::kGreater>},
    {">=", compares<Operator::kGreaterEqual>},
    {"ge", compares<Operator::kGreaterEqual>},
    {"<", compares<Operator::kLess>},
    {"lt", compares<Operator::kLess>},
    {"lessthan", compares<Operator::kLess>},
    {"<=", compares<Operator::kLessEqual>},
    {"le", compares<Operator::kLessEqual>},
};

}  // namespace

const TestSpec* find_test(std::string_view name) {
  for (const TestSpec& test : kTests)
    if (test.name == name) return &test;
  return nullptr;
}

}  // namespace tenon::templating
