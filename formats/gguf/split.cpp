#include "split.hpp"

#include <tenon/sdk/base.hpp>

namespace tenon::gguf {
namespace {

constexpr std::string_view kForm = "-00001-of-00001.gguf";

// Five digits at `begin`, or 0.
uint32_t five_digits(std::string_view text, size_t begin) {
  uint32_t number = 0;
  for (const char c : text.substr(begin, 5)) {
    if (c < '0' || c > '9') return 0;
    number = number * 10 + uint32_t(c - '0');
  }
  return number;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view name) {
  if (name.size() <= kForm.size()) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kForm.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
  const uint32_t number = five_digits(tail, 1), count = five_digits(tail, 10);
  if (number < 1 || number > count) return std::nullopt;
  return SplitName{std::string(name.substr(0, name.size() - kForm.size())), number - 1, count};
}

std::string split_name(std::string_view prefix, uint32_t index, uint32_t count) {
  return std::string(prefix) + sdk::text("-%05u-of-%05u.gguf", index + 1, count);
}

}  // namespace tenon::gguf
