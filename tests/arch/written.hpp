// written.hpp: what an architecture says that a GGUF file of a configured model holds, against a file of the same model.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <span>

#include "fake_host.hpp"

namespace tenon::test {

inline std::string text_of(tenon_str text) { return {text.data, size_t(text.size)}; }

// A value as text, whatever its width: integers, reals with the digits of an f32, arrays element by element.
inline std::string shown(const tenon_value& value) {
  const auto real = [](double number) { return std::to_string(float(number)); };
  if (value.type == TENON_VALUE_STRING) return text_of(value.string);
  if (value.type == TENON_VALUE_F32 || value.type == TENON_VALUE_F64) return real(value.real);
  if (value.type != TENON_VALUE_ARRAY) return std::to_string(value.integer);
  std::string out;
  for (uint64_t i = 0; i < value.count; ++i) {
    if (value.element == TENON_VALUE_BOOL) {
      out += std::to_string(static_cast<const uint8_t*>(value.data)[i]) + " ";
    } else if (value.element == TENON_VALUE_F32) {
      out += real(static_cast<const float*>(value.data)[i]) + " ";
    } else {
      out += std::to_string(static_cast<const int32_t*>(value.data)[i]) + " ";
    }
  }
  return out;
}

// A model of a config, and what it says. `table` is empty where status is not OK.
struct Said {
  Said(const tenon_architecture* architecture, const tenon_meta& meta) : model(architecture, meta) {
    EXPECT_EQ(model.status, TENON_OK) << model.message;
    if (model.status != TENON_OK) return;
    status = architecture->written(model.model, {"gguf", 4}, &table);
    message = take_message();
  }
  const tenon_reorder* reorder(const std::string& canonical) const {
    for (const tenon_reorder& one : std::span(table.reorder, table.n_reorder))
      if (text_of(one.canonical) == canonical) return &one;
    return nullptr;
  }
  Configured model;
  tenon_status status = TENON_INTERNAL;
  std::string message;
  tenon_written table = {};
};

// Every key that the file has under the architecture's name is said with the file's value, those in `apart` excepted.
inline void expect_says_what_a_file_does(const Said& said, const tenon_meta& file, const std::string& id,
                                         const std::set<std::string>& apart = {}) {
  ASSERT_EQ(said.status, TENON_OK) << said.message;
  std::map<std::string, std::string> found;
  for (const tenon_entry& entry : std::span(said.table.entry, said.table.n_entry))
    EXPECT_TRUE(found.emplace(text_of(entry.key), shown(entry.value)).second) << text_of(entry.key) << " is said twice";
  EXPECT_EQ(found["general.architecture"], id);
  size_t n = 0;
  for (const auto& [key, entry] : file.values) {
    if (!key.starts_with(id + ".") || apart.contains(key.substr(id.size() + 1))) continue;
    tenon_value value = {};
    ASSERT_TRUE(file.read(key, &value));
    EXPECT_EQ(found[key], shown(value)) << key;
    ++n;
  }
  EXPECT_GT(n, 8u);
}

}  // namespace tenon::test
