// builtins.hpp: filters, tests, methods and functions, each a row in a table.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "template/value.hpp"

namespace tenon::templating {

struct FilterSpec {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& input, Arguments& arguments);
};
struct TestSpec {
  std::string_view name;
  bool (*apply)(Runtime& runtime, const Value& input, Arguments& arguments);
};
struct MethodSpec {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& self, Arguments& arguments);
};
struct FunctionSpec {
  std::string_view name;
  Function::Body body;
};

// Null if there is none.
const FilterSpec* find_filter(std::string_view name);
const TestSpec* find_test(std::string_view name);
const MethodSpec* find_method(Kind kind, std::string_view name);

std::span<const FilterSpec> text_filters();
std::span<const FilterSpec> sequence_filters();
std::span<const MethodSpec> text_methods();
std::span<const FunctionSpec> functions();

// Puts arguments in the order of `names`; those not given are missing values. A name "" can only be given by position.
// Throws Fault that names `callee`.
void bind_arguments(const Arguments& arguments, std::string_view callee, std::span<const std::string_view> names,
                    size_t required, std::span<Value> bound);
template <size_t N>
std::array<Value, N> bind(const Arguments& arguments, std::string_view callee, const std::string_view (&names)[N],
                          size_t required) {
  std::array<Value, N> bound;
  bind_arguments(arguments, callee, names, required, bound);
  return bound;
}
void expect_no_arguments(const Arguments& arguments, std::string_view callee);

// What an argument must be. `fallback` if it was not given. Throw Fault.
int64_t whole_argument(const Value& value, std::string_view callee, int64_t fallback);
std::string_view text_argument(const Value& value, std::string_view callee);

// Texts, shared by filters and methods.
enum class Sides { kBoth, kBegin, kEnd };
Value strip_text(Runtime& runtime, const Value& text, const Value& characters, Sides sides);
std::string replaced(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                     int64_t count);
std::string escaped(std::string_view text);  // for HTML
std::string centered(Runtime& runtime, std::string_view text, int64_t width, std::string_view fill);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// `text % value`, and str.format().
std::string percent_format(Runtime& runtime, const Value& text, const Value& value);
std::string brace_format(Runtime& runtime, const Value& text, const Arguments& arguments);

}  // namespace tenon::templating
