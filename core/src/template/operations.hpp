// operations.hpp: what Python's operators and its functions len(), str(), repr() … do with values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "template/value.hpp"

namespace tenon::templating {

// show.cpp. Undefined is "" as text and "Undefined" in a list.
std::string to_text(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
void append_text(Runtime& runtime, std::string& out, const Value& value);
void append_repr(Runtime& runtime, std::string& out, const Value& value);
void append_text_repr(std::string& out, std::string_view text);
std::string_view type_name(const Value& value);
// value as Text: itself if it is one (str() of Python's, but marks stay).
Value soft_text(Runtime& runtime, const Value& value);

// operators.cpp.
bool truthy(const Value& value);
bool equal(Runtime& runtime, const Value& left, const Value& right);
enum class Order { kLess, kEqual, kGreater, kNone };
// Throws Fault where Python cannot compare; `sign` is the operator, for the message.
Order compare(Runtime& runtime, const Value& left, const Value& right, std::string_view sign = "<");
bool contains(Runtime& runtime, const Value& container, const Value& item);
Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right);
Value negate(Runtime& runtime, const Value& value);
Value plus(const Value& value);
bool compare_with(Runtime& runtime, Operator op, const Value& left, const Value& right);
// Throws Fault with the reason why `value` is undefined.
[[noreturn]] void fail_undefined(const Value& value);

// sequence.cpp.
int64_t length(Runtime& runtime, const Value& value);  // throws Fault for what has none
Values to_values(Runtime& runtime, const Value& value);
std::optional<size_t> normal_index(int64_t index, size_t size);
Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step);
Value character(Runtime& runtime, const Value& text, size_t index);
const Value* dict_find(Runtime& runtime, const Dict& dict, const Value& key);  // throws Fault for an unhashable key
const Value* dict_find(const Dict& dict, std::string_view key);
void dict_set(Runtime& runtime, Dict& dict, Value key, Value value);
void dict_set(Runtime& runtime, Dict& dict, std::string_view key, Value value);
Value dict_take(Runtime& runtime, Dict& dict, const Value& key);  // missing if it is not there
bool is_hashable(const Value& value);
uint64_t hash_of(const Value& value);
// What a view shows.
Values view_values(Runtime& runtime, const DictView& view);
// Sorted, stable. `keys` belong to `items`.
Values sorted(Runtime& runtime, Values items, Values keys, bool reverse);

// lookup.cpp: value.name and value[key] of templates; undefined if there is nothing.
Value get_attribute(Runtime& runtime, const Value& value, std::string_view name);
Value get_item(Runtime& runtime, const Value& value, const Value& key);
// "a.b.0" applied to `value`: the parts as keys. An undefined part becomes `fallback` unless that is missing.
Value get_path(Runtime& runtime, const Value& value, const Value& path, const Value& fallback = Value());

// json_write.cpp.
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false, pretty = false;
  std::string indent;  // of one level, if pretty
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);
// json_read.cpp. Throws Fault for what is no JSON.
Value from_json(Runtime& runtime, std::string_view json);

}  // namespace tenon::templating
