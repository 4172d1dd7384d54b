// source.hpp: a GGUF model: one file, or all parts of a split set in any order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf_file.hpp"

namespace tenon::gguf {

class Source {
 public:
  // Parses the files. While parts are missing only each part for itself is checked; see missing().
  explicit Source(const std::vector<tenon_file*>& files);

  // Name of file i of the set, i ≥ the number of files given; null when the set is complete.
  const std::string* wanted(uint64_t i) const;
  const MetaEntry* entry(uint64_t i) const;      // null past the end
  const tenon_tensor* tensor(uint64_t i) const;  // null past the end

  // A tensor and the file that it lies in.
  struct Place {
    uint32_t part;
    const TensorInfo* info;
  };

 private:
  void read_split();
  void list_tensors();
  void list_tensor(const Place& place, const std::unordered_map<std::string_view, Place>& all);

  std::vector<std::unique_ptr<GgufFile>> files_;
  std::vector<std::string> missing_;
  size_t first_ = 0;  // the file with the model's metadata
  std::vector<tenon_tensor> tensors_;
  std::vector<tenon_plane> planes_;
};

}  // namespace tenon::gguf
