// safetensors_file.hpp: writes f32 arrays row by row into a file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tenon::launcher {

struct ArraySpec {
  std::string name;
  std::vector<int64_t> shape;
};

// Not thread-safe. A regular file is written beside its place and renamed by finish(); if finish() is not reached,
// nothing is left. Something else, such as a device, is written directly. Every call throws Error(kRuntime).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path);  // finds out whether the place can be written
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  void define(const std::vector<ArraySpec>& arrays);  // once, before the first write; writes the header
  // values[…] of `array` from flat index `first` on.
  void write(const std::string& array, int64_t first, std::span<const float> values);
  void finish();

 private:
  void write_at(uint64_t offset, const void* bytes, size_t size);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, written_path_;
  int descriptor_ = -1;
  bool renames_ = true;
  std::map<std::string, uint64_t> offsets_;  // of each array's first byte in the file
};

}  // namespace tenon::launcher
