// model_file.hpp: what shall stand in a file: its keys and tensors, and where their values come from.
#pragma once

#include "rows.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::quantize {

struct FileTensor {
  std::string name;
  std::vector<int64_t> dim;                // dim[0] contiguous
  std::unique_ptr<RowReader> rows;
  const source::Tensor* whole = nullptr;   // the source's tensor, if it is just that
  uint32_t dtype = TENON_DTYPE_NONE;
  int64_t n_rows() const {
    int64_t n = 1;
    for (size_t i = 1; i < dim.size(); ++i) n *= dim[i];
    return n;
  }
};

// Keys in order; a key that is set again keeps its place. Owns texts that are set, borrows values that are copied.
class FileKeys {
 public:
  FileKeys() = default;
  FileKeys(const FileKeys&) = delete;
  FileKeys& operator=(const FileKeys&) = delete;

  void copy(std::string_view key, const tenon_value& value);
  void set_u32(std::string_view key, uint32_t number);
  void set_string(std::string_view key, std::string_view text);
  void erase(std::string_view key);
  const tenon_value* find(std::string_view key) const;
  const std::vector<tenon_entry>& entries() const { return entries_; }

 private:
  std::string_view kept(std::string_view text) { return texts_.emplace_back(text); }
  std::vector<tenon_entry> entries_;
  std::deque<std::string> texts_;
};

struct FileContents {
  FileKeys keys;
  std::vector<FileTensor> tensors;
};

// The same keys and tensors as the source's, whose names stay.
void copy_contents(const source::ModelSource& source, const plugin::Registry& registry, FileContents& out);

}  // namespace tenon::quantize
