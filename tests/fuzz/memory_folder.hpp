// memory_folder.hpp: a folder of small files that is gone when the program ends.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon::fuzz {

class MemoryFolder {
 public:
  MemoryFolder() {
    // Kept in memory where the system has such a place.
    const std::filesystem::path memory = "/dev/shm";
    std::string name = (is_directory(memory) ? memory : std::filesystem::temp_directory_path()) / "fuzz-XXXXXX";
    if (!mkdtemp(name.data())) throw std::runtime_error("no folder " + name);
    path_ = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  std::string path(std::string_view name) const { return path_ / name; }
  // Nothing may have the old contents mapped.
  void set(std::string_view name, std::string_view bytes) {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(bytes.data(), std::streamsize(bytes.size()));
    if (!file.flush()) throw std::runtime_error("a file in " + path_.string() + " cannot be written");
  }
  void erase(std::string_view name) { remove(path_ / name); }

 private:
  std::filesystem::path path_;
};

}  // namespace tenon::fuzz
