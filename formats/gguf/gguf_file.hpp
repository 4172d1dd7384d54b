// gguf_file.hpp: one parsed GGUF file (version 2 or 3, little endian). Layout, as its specification gives it:
//   "GGUF", u32 version, i64 tensors, i64 keys; the keys; the tensor infos; zeros up to a multiple of the alignment;
//   data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tenon/sdk/base.hpp>
#include <vector>

namespace tenon::gguf {

struct MetaEntry {
  std::string_view key;  // borrowed from the file, like every string in `value`
  tenon_value value;
  uint64_t offset;  // of the key
};

struct TensorInfo {
  std::string_view name;  // borrowed from the file
  uint32_t dtype, n_dim;
  int64_t dim[4];
  uint64_t offset, bytes;  // in the file, from its begin
  uint64_t info_offset;
};

// Memory in use stays below what the file's own bytes take and a constant: no count is trusted before its bytes were
// seen, and the numbers of keys, tensors and array elements have limits.
class GgufFile {
 public:
  // Parses and checks everything. `data` must outlive the object. Throws CORRUPT or UNSUPPORTED, naming field and byte.
  GgufFile(std::string name, const uint8_t* data, uint64_t size);

  const std::string& name() const { return name_; }
  const std::vector<MetaEntry>& entries() const { return entries_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  uint64_t alignment() const { return alignment_; }

  const MetaEntry* find(std::string_view key) const;  // a walk over all keys
  // An integer of any width. `fallback` when absent; CORRUPT when it is of another type or outside low … high.
  int64_t integer(std::string_view key, int64_t fallback, int64_t low, int64_t high) const;

 private:
  std::string name_;
  std::vector<MetaEntry> entries_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::unique_ptr<std::vector<tenon_str>>> string_arrays_;
  std::vector<std::unique_ptr<uint64_t[]>> number_arrays_;  // copies of arrays that do not lie aligned in the file
  uint64_t alignment_ = 32;

  friend class MetaParser;
};

}  // namespace tenon::gguf
