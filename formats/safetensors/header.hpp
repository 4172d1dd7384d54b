// header.hpp: one safetensors file: a 64-bit length, a JSON header of that length, then the tensors' bytes without
// holes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"

namespace tenon::safetensors {

struct RawTensor {
  std::string_view name;
  std::string_view type;           // "BF16", as the header spells it
  uint32_t file = 0;               // in the set
  std::vector<int64_t> shape;      // as the header has it: the last is contiguous
  uint64_t offset = 0, bytes = 0;  // in the file, from its begin
  uint64_t header_offset = 0;      // of its entry

  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
};

// Immutable; borrows the mapped bytes.
class SafetensorsFile {
 public:
  // Checks everything that the format says. Throws CORRUPT or UNSUPPORTED naming the tensor, what is wrong and the
  // byte.
  SafetensorsFile(std::string name, const uint8_t* data, uint64_t size, uint32_t file);

  const std::string& name() const { return name_; }
  const std::vector<RawTensor>& tensors() const { return tensors_; }  // in the order of their bytes
  // Keys and values of "__metadata__"; null when there is none.
  const JsonValue* metadata() const { return metadata_; }

 private:
  void read_tensor(const JsonValue& entry, uint64_t data_bytes, uint32_t file);
  void check_tiling(uint64_t data_bytes) const;

  std::string name_;
  std::unique_ptr<JsonDocument> header_;
  uint64_t data_begin_ = 0;
  std::vector<RawTensor> tensors_;
  const JsonValue* metadata_ = nullptr;
};

// Bits of an element, 0 for a type that the format never had.
uint32_t element_bits(std::string_view type);

}  // namespace tenon::safetensors
