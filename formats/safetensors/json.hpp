// json.hpp: a strict reader of JSON (RFC 8259) that trusts nothing: limits on depth and on the number of values, valid
// UTF-8 only, and no key twice in an object. NaN, Infinity and -Infinity are read, since Python's json module writes
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::safetensors {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool is_unsigned = false;  // an integer of 2^63 or more: `integer` holds its bits
  std::string_view key;      // in an object
  std::string_view text;     // of a string
  int64_t integer = 0;       // or 0 and 1 of a bool
  double real = 0;
  uint64_t offset = 0;           // of its first byte
  std::vector<JsonValue> items;  // of an array or an object, in the order of the text

  bool is(Kind wanted) const { return kind == wanted; }
  const JsonValue* find(std::string_view name) const {
    for (const JsonValue& item : items)
      if (item.key == name) return &item;
    return nullptr;
  }
};

const char* kind_name(JsonValue::Kind kind);

// Owns what its values point to, but for strings without escapes, which point into `text`.
class JsonDocument {
 public:
  // `file` and `begin`, the place of the text in it, are for messages. Throws CORRUPT.
  JsonDocument(std::string_view file, std::string_view text, uint64_t begin = 0);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  const JsonValue& root() const { return root_; }

 private:
  friend class JsonReader;
  std::deque<std::string> decoded_;
  JsonValue root_;
};

}  // namespace tenon::safetensors
