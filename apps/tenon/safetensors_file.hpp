// safetensors_file.hpp: writes f32 and i32 arrays row by row into a file that appears under its name only when it is
// complete.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "output_file.hpp"

namespace tenon::launcher {

struct ArraySpec {
  std::string name;
  std::vector<int64_t> shape;
  bool is_integer = false;  // i32, else f32
};

// Not thread-safe. Every call throws Error(kRuntime).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path) : file_("--out", std::move(path)) {}

  void define(const std::vector<ArraySpec>& arrays);  // once, before the first write; writes the header
  // values[…] of `array` from flat index `first` on.
  void write(const std::string& array, int64_t first, std::span<const float> values);
  void write(const std::string& array, int64_t first, std::span<const int32_t> values);
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
  std::map<std::string, uint64_t> offsets_;  // of each array's first byte in the file
};

}  // namespace tenon::launcher
