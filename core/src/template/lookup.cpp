// value.name and value[key]. A name is first looked for among what the type itself has, such as a dict's methods; a key
// first among the items.
#include <algorithm>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

// What Python's types have and the sandbox hides, so that a dict's own key of that name cannot be seen with a dot.
constexpr std::string_view kHidden[] = {"__class__",
                                        "__delattr__",
                                        "__dir__",
                                        "__doc__",
                                        "__eq__",
                                        "__format__",
                                        "__ge__",
                                        "__getattribute__",
                                        "__getitem__",
                                        "__getstate__",
                                        "__gt__",
                                        "__hash__",
                                        "__init__",
                                        "__init_subclass__",
                                        "__iter__",
                                        "__le__",
                                        "__len__",
                                        "__lt__",
                                        "__ne__",
                                        "__new__",
                                        "__reduce__",
                                        "__reduce_ex__",
                                        "__repr__",
                                        "__setattr__",
                                        "__sizeof__",
                                        "__str__",
                                        "__subclasshook__",
                                        "__contains__",
                                        "__delitem__",
                                        "__setitem__",
                                        "__class_getitem__",
                                        "__reversed__",
                                        "__or__",
                                        "__ror__",
                                        "__ior__"};
constexpr std::string_view kHiddenOfDicts[] = {"clear", "popitem", "setdefault", "update"};
constexpr std::string_view kHiddenOfLists[] = {"clear", "extend", "insert", "remove", "reverse", "sort"};

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_hidden(const Value& value, std::string_view name) {
  if (value.is(Kind::kDict) && is_one_of(kHiddenOfDicts, name)) return true;
  if (value.is(Kind::kList) && is_one_of(kHiddenOfLists, name)) return true;
  return name.starts_with("__") && is_one_of(kHidden, name);
}

Value loop_attribute(Runtime& runtime, Loop& loop, std::string_view name) {
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "length") return Value::integer(runtime.loop_length(loop));
  if (name == "revindex0") return Value::integer(runtime.loop_length(loop) - loop.index0 - 1);
  if (name == "revindex") return Value::integer(runtime.loop_length(loop) - loop.index0);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  Value next;
  if (name == "last") return Value::boolean(!runtime.peek(loop, next));
  if (name == "nextitem") return runtime.peek(loop, next) ? next : runtime.undefined("there is no next item");
  if (name == "previtem") return loop.index0 == 0 ? runtime.undefined("there is no previous item") : loop.before;
  return Value();
}

Value number_attribute(const Value& value, std::string_view name) {
  if (name == "real") return value.is(Kind::kFloat) ? value : Value::integer(value.as_integer());
  if (name == "imag") return value.is(Kind::kFloat) ? Value::real(0) : Value::integer(0);
  if (value.is(Kind::kFloat)) return Value();
  if (name == "numerator") return Value::integer(value.as_integer());
  if (name == "denominator") return Value::integer(1);
  return Value();
}

Value macro_attribute(Runtime& runtime, const Callable& callable, std::string_view name) {
  if (name == "name") return runtime.text(callable.name);
  if (name == "catch_kwargs") return Value::boolean(callable.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(callable.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(callable.caller_slot >= 0);
  if (name != "arguments") return Value();
  Values names;
  for (const Parameter& parameter : callable.parameters) names.push_back(runtime.text(parameter.name));
  return runtime.tuple(std::move(names));
}

// What the type has under this name; missing if it has nothing.
Value own_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (is_hidden(value, name))
    return runtime.undefined("access to attribute '" + std::string(name) + "' of '" + std::string(type_name(value)) +
                             "' object is unsafe.");
  if (const MethodSpec* method = find_method(value.kind(), name)) return runtime.object<Method>(*method, value);
  switch (value.kind()) {
    case Kind::kNamespace:
      for (const auto& [other, item] : value.as<Namespace>().attributes) {
        if (other != name) continue;
        if (!name.starts_with('_')) return item;
        return runtime.undefined("access to attribute '" + other + "' of 'Namespace' object is unsafe.");
      }
      return Value();
    case Kind::kLoop:
      return loop_attribute(runtime, value.as<Loop>(), name);
    case Kind::kMacro:
      return macro_attribute(runtime, value.as<Macro>().callable, name);
    case Kind::kBool:
    case Kind::kInteger:
    case Kind::kFloat:
      return number_attribute(value, name);
    case Kind::kTuple:
      if (!value.as<Sequence>().is_group) return Value();
      return name == "grouper" ? value.as<Sequence>().items[0]
             : name == "list"  ? value.as<Sequence>().items[1]
                               : Value();
    case Kind::kRange: {
      const Range& range = value.as<Range>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      if (name == "step") return Value::integer(range.step);
      return Value();
    }
    case Kind::kCycler: {
      const Cycler& cycler = value.as<Cycler>();
      return name == "current" ? cycler.items[cycler.position] : Value();
    }
    default:
      return Value();
  }
}

std::string object_name(const Value& value) {
  return value.is_none() ? "None" : std::string(type_name(value)) + " object";
}

Value no_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  std::string reason;
  reason.append("'").append(object_name(value)).append("' has no attribute '").append(name).append("'");
  return runtime.undefined(std::move(reason));
}

// The item at `index` of what has numbered items; missing if there is none.
Value numbered_item(Runtime& runtime, const Value& value, int64_t index) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple: {
      const Values& items = value.as<Sequence>().items;
      const auto at = normal_index(index, items.size());
      return at ? items[*at] : Value();
    }
    case Kind::kText: {
      const auto at = normal_index(index, static_cast<size_t>(length(runtime, value)));
      return at ? character(runtime, value, *at) : Value();
    }
    case Kind::kRange: {
      const Range& range = value.as<Range>();
      const auto at = normal_index(index, static_cast<size_t>(range.size()));
      return at ? Value::integer(range.start + static_cast<int64_t>(*at) * range.step) : Value();
    }
    default:
      return Value();
  }
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_undefined(value);
  Value own = own_attribute(runtime, value, name);
  if (!own.is(Kind::kMissing)) return own;
  if (value.is(Kind::kDict)) {
    if (const Value* item = dict_find(value.as<Dict>(), name)) return *item;
  }
  return no_attribute(runtime, value, name);
}

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::kDict)) {
    if (is_hashable(key)) {
      if (const Value* item = dict_find(runtime, value.as<Dict>(), key)) return *item;
    }
  } else if (key.is_whole()) {
    Value item = numbered_item(runtime, value, key.as_integer());
    if (!item.is(Kind::kMissing)) return item;
  }
  if (key.is_text()) {
    Value own = own_attribute(runtime, value, text_of(key));
    return own.is(Kind::kMissing) ? no_attribute(runtime, value, text_of(key)) : own;
  }
  return runtime.undefined(object_name(value) + " has no element " + to_repr(runtime, key));
}

Value get_path(Runtime& runtime, const Value& value, const Value& path, const Value& fallback) {
  Value current = value;
  const auto descend = [&](const Value& key) {
    current = get_item(runtime, current, key);
    if (!fallback.is(Kind::kMissing) && !fallback.is_none() && current.is_undefined()) current = fallback;
  };
  if (path.is_none()) return current;
  if (!path.is_text()) {
    descend(path);
    return current;
  }
  const std::string_view text = text_of(path);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part(text.substr(begin, end - begin));
    const bool is_number = !part.empty() && part.size() < 18 &&
                           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    descend(is_number ? Value::integer(std::stoll(part)) : runtime.text(part));
    begin = end + 1;
  }
  return current;
}

}  // namespace tenon::templating
