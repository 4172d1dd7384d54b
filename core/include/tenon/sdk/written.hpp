// written.hpp: how a configured model is said in another naming scheme than its files': keys, orders, made tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <tenon/sdk/plugin.hpp>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Filled once by Architecture::written(). Keys under the architecture's own prefix go without it: "block_count".
class Written {
 public:
  explicit Written(std::string prefix) : prefix_(std::move(prefix)) {}
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  void number(std::string_view key, int64_t value) { add(own(key), scalar(TENON_VALUE_U32, value, 0)); }
  void real(std::string_view key, double value) { add(own(key), scalar(TENON_VALUE_F32, 0, value)); }
  void flag(std::string_view key, bool value) { add(own(key), scalar(TENON_VALUE_BOOL, value, 0)); }
  void text(std::string_view key, std::string_view value) { add_text(own(key), value); }
  // One number where all are the same, as files have it, else an array of i32.
  void per_layer(std::string_view key, const std::vector<int64_t>& values) {
    bool same = true;
    for (int64_t value : values) same = same && value == values.front();
    if (same && !values.empty()) return number(key, values.front());
    numbers(key, values);
  }
  void numbers(std::string_view key, const std::vector<int64_t>& values) {
    add_array(key, TENON_VALUE_I32, integers_.emplace_back(values.begin(), values.end()));
  }
  void reals(std::string_view key, const std::vector<float>& values) {
    add_array(key, TENON_VALUE_F32, reals_.emplace_back(values));
  }
  void flags(std::string_view key, const std::vector<bool>& values) {
    add_array(key, TENON_VALUE_BOOL, flags_.emplace_back(values.begin(), values.end()));
  }
  // A key under its full name.
  void global_text(std::string_view key, std::string_view value) { add_text(std::string(key), value); }

  // Rows from `first` on: `outer` times, a × b pieces of `unit` rows are written as b × a.
  void reorder_rows(std::string_view canonical, int64_t first, int64_t outer, int64_t a, int64_t b, int64_t unit) {
    reorders_.push_back({keep(canonical), 1, 0, first, outer, a, b, unit});
  }
  void reorder_cols(std::string_view canonical, int64_t first, int64_t outer, int64_t a, int64_t b, int64_t unit) {
    reorders_.push_back({keep(canonical), 0, 0, first, outer, a, b, unit});
  }
  // A vector that is no weight of the model's files.
  void constant(std::string_view name, std::vector<float> values) {
    const std::vector<float>& kept = reals_.emplace_back(std::move(values));
    constants_.push_back({keep(name), kept.data(), 1, static_cast<int64_t>(kept.size())});
  }

  // Borrows this object.
  tenon_written table() const {
    return {sizeof(tenon_written),
            static_cast<uint32_t>(entries_.size()),
            static_cast<uint32_t>(reorders_.size()),
            static_cast<uint32_t>(constants_.size()),
            entries_.data(),
            reorders_.data(),
            constants_.data()};
  }

 private:
  std::string own(std::string_view key) const { return prefix_ + "." + std::string(key); }
  tenon_str keep(std::string_view text) { return to_str(texts_.emplace_back(text)); }
  static tenon_value scalar(uint32_t type, int64_t integer, double real) {
    tenon_value value = {};
    value.struct_size = sizeof value, value.type = type, value.integer = integer, value.real = real;
    return value;
  }
  void add(const std::string& key, const tenon_value& value) { entries_.push_back({keep(key), value}); }
  void add_text(const std::string& key, std::string_view text) {
    tenon_value value = scalar(TENON_VALUE_STRING, 0, 0);
    value.string = keep(text);
    add(key, value);
  }
  template <typename T>
  void add_array(std::string_view key, uint32_t element, const std::vector<T>& kept) {
    tenon_value value = scalar(TENON_VALUE_ARRAY, 0, 0);
    value.element = element, value.data = kept.data(), value.count = kept.size();
    add(own(key), value);
  }

  std::string prefix_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int32_t>> integers_;
  std::deque<std::vector<float>> reals_;
  std::deque<std::vector<uint8_t>> flags_;
  std::vector<tenon_entry> entries_;
  std::vector<tenon_reorder> reorders_;
  std::vector<tenon_constant> constants_;
};

}  // namespace tenon::sdk
