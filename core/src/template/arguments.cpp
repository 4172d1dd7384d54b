// Arguments of filters, methods and functions.
#include <algorithm>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {

void bind_arguments(const Arguments& arguments, std::string_view callee, std::span<const std::string_view> names,
                    size_t required, std::span<Value> bound) {
  const std::string who = std::string(callee) + "()";
  if (arguments.positional.size() > names.size())
    throw Fault(who + " takes at most " + std::to_string(names.size()) + " arguments (" +
                std::to_string(arguments.positional.size()) + " given)");
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), std::string_view(name));
    if (name.empty() || found == names.end()) throw Fault(who + " got an unexpected keyword argument '" + name + "'");
    Value& place = bound[static_cast<size_t>(found - names.begin())];
    if (!place.is(Kind::kMissing)) throw Fault(who + " got multiple values for argument '" + name + "'");
    place = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound[i].is(Kind::kMissing)) continue;
    throw Fault(who + " misses its argument " + std::to_string(i + 1) +
                (names[i].empty() ? "" : " '" + std::string(names[i]) + "'"));
  }
}

void expect_no_arguments(const Arguments& arguments, std::string_view callee) {
  if (!arguments.positional.empty() || !arguments.named.empty())
    throw Fault(std::string(callee) + "() takes no arguments");
}

int64_t whole_argument(const Value& value, std::string_view callee, int64_t fallback) {
  if (value.is(Kind::kMissing)) return fallback;
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_whole())
    throw Fault(std::string(callee) + "(): '" + std::string(type_name(value)) +
                "' object cannot be interpreted as an integer");
  return value.as_integer();
}

std::string_view text_argument(const Value& value, std::string_view callee) {
  if (!value.is_text())
    throw Fault(std::string(callee) + "() argument must be str, not " + std::string(type_name(value)));
  return text_of(value);
}

}  // namespace tenon::templating
