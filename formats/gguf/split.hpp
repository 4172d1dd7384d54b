// split.hpp: names of a model that is cut into several files: PREFIX-00001-of-00003.gguf, counted from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::gguf {

struct SplitName {
  std::string prefix;
  uint32_t index, count;  // index from 0
};

// Nullopt when the name is not of that form.
std::optional<SplitName> parse_split_name(std::string_view name);
std::string split_name(std::string_view prefix, uint32_t index, uint32_t count);

}  // namespace tenon::gguf
