#include "layer_types.hpp"

namespace tenon::gemma {

constexpr int64_t kDefaultPattern = 6;  // five local layers, then a global one

std::vector<bool> sliding_layers(const sdk::Keys& key, int64_t n) {
  if (const auto found = key.find("attention.sliding_window_pattern", "layer_types");
      found && found->value.type == TENON_VALUE_ARRAY) {
    const uint64_t count = found->value.count;
    if (static_cast<int64_t>(count) != n)
      throw sdk::Error(TENON_CORRUPT, found->key + ": expected " + std::to_string(n) +
                                          " entries (one a layer), found " + std::to_string(count));
    if (found->value.element != TENON_VALUE_STRING) return found->as<std::vector<bool>>();
    std::vector<bool> out;
    for (const std::string& type : found->as<std::vector<std::string>>()) {
      if (type != "sliding_attention" && type != "full_attention")
        throw sdk::Error(TENON_CORRUPT,
                         found->key + ": expected sliding_attention or full_attention, found \"" + type + "\"");
      out.push_back(type == "sliding_attention");
    }
    return out;
  }
  const int64_t every = key.integer_or(kDefaultPattern, {1, 512}, "attention.sliding_window_pattern",
                                       "sliding_window_pattern", "_sliding_window_pattern");
  std::vector<bool> out;
  for (int64_t i = 0; i < n; ++i) out.push_back((i + 1) % every != 0);
  return out;
}

}  // namespace tenon::gemma
