// Calls of whatever can be called.
#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {

Value Runtime::call(const Value& callee, Arguments& arguments) {
  step();
  switch (callee.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      fail_undefined(callee);
    case Kind::kMacro:
      return call_macro(callee.as<Macro>(), arguments);
    case Kind::kLoop:
      return call_loop(callee.as<Loop>(), arguments);
    case Kind::kFunction:
      return callee.as<Function>().body(*this, arguments);
    case Kind::kMethod:
      return callee.as<Method>().spec.apply(*this, callee.as<Method>().self, arguments);
    case Kind::kJoiner: {
      expect_no_arguments(arguments, "joiner");
      Joiner& joiner = callee.as<Joiner>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return text("");
    }
    default:
      throw Fault("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Runtime::apply_filter(std::string_view name, const Value& input, Arguments& arguments) {
  step();
  const FilterSpec* filter = find_filter(name);
  if (!filter) throw Fault("there is no filter '" + std::string(name) + "'");
  return filter->apply(*this, input, arguments);
}

bool Runtime::apply_test(std::string_view name, const Value& input, Arguments& arguments) {
  step();
  const TestSpec* test = find_test(name);
  if (!test) throw Fault("there is no test '" + std::string(name) + "'");
  return test->apply(*this, input, arguments);
}

}  // namespace tenon::templating
