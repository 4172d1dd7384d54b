#include "metadata.hpp"

#include <cstring>
#include <tenon/error.hpp>

namespace tenon {
namespace {

bool is_integer(uint32_t type) { return type >= TENON_VALUE_U8 && type <= TENON_VALUE_I64; }

const char* type_name(uint32_t type) {
  static constexpr const char* kNames[] = {"nothing", "u8",  "i8",  "u16", "i16",  "u32",    "i32",
                                           "u64",     "i64", "f32", "f64", "bool", "string", "array"};
  return type < sizeof kNames / sizeof *kNames ? kNames[type] : "an unknown type";
}

[[noreturn]] void fail(std::string_view key, const std::string& message) {
  throw Error(ErrorKind::kFile, "metadata key '" + std::string(key) + "': " + message);
}

[[noreturn]] void fail_type(std::string_view key, const char* expected, const tenon_value& found) {
  std::string name = type_name(found.type);
  if (found.type == TENON_VALUE_ARRAY) name += std::string(" of ") + type_name(found.element);
  fail(key, std::string("expected ") + expected + ", found " + name);
}

int64_t checked_integer(std::string_view key, uint32_t type, int64_t value) {
  if (type == TENON_VALUE_U64 && value < 0) fail(key, std::to_string(uint64_t(value)) + " is too large");
  return value;
}

template <typename T>
T element(const tenon_value& array, uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(array.data) + i * sizeof value, sizeof value);
  return value;
}

int64_t integer_element(std::string_view key, const tenon_value& array, uint64_t i) {
  switch (array.element) {
    case TENON_VALUE_U8:
    case TENON_VALUE_BOOL:
      return element<uint8_t>(array, i);
    case TENON_VALUE_I8:
      return element<int8_t>(array, i);
    case TENON_VALUE_U16:
      return element<uint16_t>(array, i);
    case TENON_VALUE_I16:
      return element<int16_t>(array, i);
    case TENON_VALUE_U32:
      return element<uint32_t>(array, i);
    case TENON_VALUE_I32:
      return element<int32_t>(array, i);
    case TENON_VALUE_U64:
    case TENON_VALUE_I64:
      return checked_integer(key, array.element, element<int64_t>(array, i));
    default:
      fail_type(key, "an array of integers", array);
  }
}

}  // namespace

std::optional<int64_t> Metadata::integer(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (!is_integer(value->type)) fail_type(key, "an integer", *value);
  return checked_integer(key, value->type, value->integer);
}

std::optional<double> Metadata::real(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type == TENON_VALUE_F32 || value->type == TENON_VALUE_F64) return value->real;
  if (is_integer(value->type)) return double(checked_integer(key, value->type, value->integer));
  fail_type(key, "a number", *value);
}

std::optional<bool> Metadata::boolean(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type == TENON_VALUE_BOOL) return value->integer != 0;
  if (!is_integer(value->type)) fail_type(key, "true or false", *value);
  if (value->integer != 0 && value->integer != 1)
    fail(key, "expected true or false, found " + std::to_string(value->integer));
  return value->integer == 1;
}

std::optional<std::string_view> Metadata::string(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != TENON_VALUE_STRING) fail_type(key, "a string", *value);
  return std::string_view(value->string.data, size_t(value->string.size));
}

std::optional<std::span<const tenon_str>> Metadata::strings(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != TENON_VALUE_ARRAY || value->element != TENON_VALUE_STRING)
    fail_type(key, "an array of strings", *value);
  return std::span(static_cast<const tenon_str*>(value->data), size_t(value->count));
}

std::optional<std::vector<int64_t>> Metadata::integers(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != TENON_VALUE_ARRAY) fail_type(key, "an array of integers", *value);
  std::vector<int64_t> out;
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) out.push_back(integer_element(key, *value, i));
  return out;
}

std::optional<std::vector<float>> Metadata::reals(std::string_view key) const {
  const tenon_value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != TENON_VALUE_ARRAY) fail_type(key, "an array of numbers", *value);
  std::vector<float> out;
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    if (value->element == TENON_VALUE_F32) {
      out.push_back(element<float>(*value, i));
    } else if (value->element == TENON_VALUE_F64) {
      out.push_back(float(element<double>(*value, i)));
    } else {
      if (!is_integer(value->element)) fail_type(key, "an array of numbers", *value);
      out.push_back(float(integer_element(key, *value, i)));
    }
  }
  return out;
}

}  // namespace tenon
