// metadata.hpp: typed metadata of a model, independent of its format.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Read access by key. Values borrow the source. Immutable.
class Metadata {
 public:
  virtual ~Metadata() = default;
  virtual const tenon_value* find(std::string_view key) const = 0;  // null when absent
  virtual size_t size() const = 0;
  virtual std::string_view key_at(size_t i) const = 0;
  virtual const tenon_value& value_at(size_t i) const = 0;

  // Conversions; nullopt when the key is absent. Throw Error(kFile) naming the key when its type does not fit. Any integer
  // type is taken for an integer, then range-checked.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<std::span<const tenon_str>> strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> reals(std::string_view key) const;
};

}  // namespace tenon
