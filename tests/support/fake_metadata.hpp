// fake_metadata.hpp: metadata put together by a test.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "source/metadata.hpp"

namespace tenon::test {

// Owns its values. Not copyable: values point into it.
class FakeMetadata : public Metadata {
 public:
  FakeMetadata() = default;
  FakeMetadata(const FakeMetadata&) = delete;
  FakeMetadata& operator=(const FakeMetadata&) = delete;

  void set_integer(const std::string& key, int64_t value, uint32_t type = TENON_VALUE_U32) {
    tenon_value v = blank(type);
    v.integer = value;
    values_[key] = v;
  }
  void set_bool(const std::string& key, bool value) { set_integer(key, value ? 1 : 0, TENON_VALUE_BOOL); }
  void set_real(const std::string& key, double value, uint32_t type = TENON_VALUE_F32) {
    tenon_value v = blank(type);
    v.real = value;
    values_[key] = v;
  }
  void set_string(const std::string& key, std::string_view value) {
    tenon_value v = blank(TENON_VALUE_STRING);
    v.string = keep(value);
    values_[key] = v;
  }
  void set_strings(const std::string& key, const std::vector<std::string>& value) {
    std::vector<tenon_str> items;
    items.reserve(value.size());
    for (const std::string& text : value) items.push_back(keep(text));
    set_array(key, TENON_VALUE_STRING, items.data(), items.size(), sizeof(tenon_str));
  }
  void set_i32s(const std::string& key, const std::vector<int32_t>& value) {
    set_array(key, TENON_VALUE_I32, value.data(), value.size(), sizeof(int32_t));
  }
  void set_f32s(const std::string& key, const std::vector<float>& value) {
    set_array(key, TENON_VALUE_F32, value.data(), value.size(), sizeof(float));
  }
  // Elements in host byte order; copied.
  void set_array(const std::string& key, uint32_t element, const void* data, size_t count, size_t element_bytes) {
    // Words, so that every element type is aligned.
    std::vector<uint64_t>& bytes = arrays_.emplace_back((count * element_bytes + 7) / 8 + 1);
    if (count != 0) std::memcpy(bytes.data(), data, count * element_bytes);
    tenon_value v = blank(TENON_VALUE_ARRAY);
    v.element = element;
    v.data = bytes.data();
    v.count = count;
    values_[key] = v;
  }
  void erase(const std::string& key) { values_.erase(key); }
  tenon_str keep(std::string_view text) {
    const std::string& kept = texts_.emplace_back(text);
    return {kept.data(), kept.size()};
  }

  const tenon_value* find(std::string_view key) const override {
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second;
  }
  size_t size() const override { return values_.size(); }
  std::string_view key_at(size_t i) const override {
    return std::next(values_.begin(), static_cast<ptrdiff_t>(i))->first;
  }
  const tenon_value& value_at(size_t i) const override {
    return std::next(values_.begin(), static_cast<ptrdiff_t>(i))->second;
  }

 private:
  static tenon_value blank(uint32_t type) {
    tenon_value v{};
    v.struct_size = sizeof(tenon_value);
    v.type = type;
    return v;
  }

  std::map<std::string, tenon_value, std::less<>> values_;
  std::deque<std::string> texts_;
  std::deque<std::vector<uint64_t>> arrays_;
};

}  // namespace tenon::test
