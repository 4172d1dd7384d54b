// Values as text: str() and repr().
#include <algorithm>

#include "template/builtins.hpp"
#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

void append_items(Runtime& runtime, std::string& out, const Values& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(runtime, out, item);
  }
}

void append_entries(Runtime& runtime, std::string& out, const std::vector<std::pair<Value, Value>>& entries) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(runtime, out, key);
    out += ": ";
    append_repr(runtime, out, value);
  }
  out += '}';
}

void append_view(Runtime& runtime, std::string& out, const DictView& view) {
  static constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
  out += kNames[static_cast<size_t>(view.what)];
  out += "([";
  append_items(runtime, out, view_values(runtime, view));
  out += "])";
}

void append_range(std::string& out, const Range& range) {
  out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  out += ")";
}

// Objects that Python shows with a type and an address.
void append_object(Runtime& runtime, std::string& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kNamespace: {
      out += "<Namespace {";
      bool first = true;
      for (const auto& [name, item] : value.as<Namespace>().attributes) {
        if (!first) out += ", ";
        first = false;
        append_text_repr(out, name);
        out += ": ";
        append_repr(runtime, out, item);
      }
      out += "}>";
      return;
    }
    case Kind::kMacro:
      out += "<Macro ";
      append_text_repr(out, value.as<Macro>().callable.name);
      out += '>';
      return;
    case Kind::kLoop:
      out.append("<LoopContext ").append(std::to_string(value.as<Loop>().index0 + 1)).append("/");
      out.append(std::to_string(runtime.loop_length(value.as<Loop>()))).append(">");
      return;
    case Kind::kFunction:
      out.append("<function ").append(value.as<Function>().name).append(">");
      return;
    case Kind::kMethod:
      out.append("<built-in method ").append(value.as<Method>().spec.name).append(">");
      return;
    default:
      out.append("<").append(type_name(value)).append(" object>");
      return;
  }
}

void append_container(Runtime& runtime, std::string& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
      out += '[';
      append_items(runtime, out, value.as<Sequence>().items);
      out += ']';
      return;
    case Kind::kTuple: {
      const Values& items = value.as<Sequence>().items;
      out += '(';
      append_items(runtime, out, items);
      out += items.size() == 1 ? ",)" : ")";
      return;
    }
    case Kind::kDict:
      return append_entries(runtime, out, value.as<Dict>().entries);
    case Kind::kDictView:
      return append_view(runtime, out, value.as<DictView>());
    case Kind::kRange:
      return append_range(out, value.as<Range>());
    default:
      return append_object(runtime, out, value);
  }
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInteger:
    case Kind::kBigInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "method";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
    case Kind::kScopeFrame:
      break;
  }
  return "scope";
}

// Python's choice: single quotes, unless that would escape one and double quotes would not.
void append_text_repr(std::string& out, std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    switch (point.value) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (point.value == static_cast<char32_t>(quote))
          out += '\\', out += quote;
        else if (is_printable(point.value))
          out += text.substr(i, point.size);
        else
          out += python_escape(point.value);
    }
    i += point.size;
  }
  out += quote;
}

void append_repr(Runtime& runtime, std::string& out, const Value& value) {
  runtime.step();
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInteger:
      out += std::to_string(value.as_integer());
      return;
    case Kind::kFloat:
      out += float_text(value.as_real());
      return;
    case Kind::kBigInteger:
      out += value.as<BigNumber>().digits;
      return;
    case Kind::kText: {
      const Text& text = value.as<Text>();
      runtime.check_size(out.size() + text.text.size());
      runtime.step_text(text.text.size());
      if (text.markup) out += "Markup(";
      append_text_repr(out, text.text);
      if (text.markup) out += ')';
      return;
    }
    default:
      break;
  }
  runtime.check_stack();
  runtime.check_size(out.size());
  auto& showing = runtime.showing();
  if (std::find(showing.begin(), showing.end(), value.object()) != showing.end()) {
    out += value.is(Kind::kList)        ? "[...]"
           : value.is(Kind::kTuple)     ? "(...)"
           : value.is(Kind::kNamespace) ? "<Namespace {...}>"
                                        : "{...}";
    return;
  }
  showing.push_back(value.object());
  append_container(runtime, out, value);
  showing.pop_back();
}

void append_text(Runtime& runtime, std::string& out, const Value& value) {
  if (value.is_text())
    out += text_of(value);
  else if (!value.is_undefined())
    append_repr(runtime, out, value);
}

std::string to_text(Runtime& runtime, const Value& value) {
  std::string out;
  append_text(runtime, out, value);
  return out;
}

std::string to_repr(Runtime& runtime, const Value& value) {
  std::string out;
  append_repr(runtime, out, value);
  return out;
}

Value soft_text(Runtime& runtime, const Value& value) {
  return value.is_text() ? value : runtime.text(to_text(runtime, value));
}

}  // namespace tenon::templating
