// memory_file.hpp: bytes as a file with a path, without a disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tenon::fuzz {

class MemoryFile {
 public:
  MemoryFile() : number_(memfd_create("input.gguf", MFD_CLOEXEC)) {
    if (number_ < 0) throw std::runtime_error("memfd_create failed");
    path_ = "/proc/self/fd/" + std::to_string(number_);
  }
  ~MemoryFile() { close(number_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  // Nothing may have the old contents mapped.
  void set(const void* bytes, size_t n) {
    if (ftruncate(number_, 0) != 0 || pwrite(number_, bytes, n, 0) != ssize_t(n))
      throw std::runtime_error("the file in memory cannot be written");
  }

 private:
  int number_;
  std::string path_;
};

}  // namespace tenon::fuzz
