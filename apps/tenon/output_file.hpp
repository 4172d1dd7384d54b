// output_file.hpp: a file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon::launcher {

// A regular file is written beside its place and renamed by finish(); if finish() is not reached, nothing is left.
// Something else, such as a device, is written directly. Every call throws Error(kRuntime) that begins with `what`. One
// thread, but for write().
class OutputFile {
 public:
  OutputFile(std::string what, std::string path);  // finds out whether the place can be written
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(uint64_t offset, const void* bytes, size_t size);  // any thread
  void sync();  // waits until what was written is on the disk
  void finish();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string what_, path_, written_path_;
  int descriptor_ = -1;
  bool renames_ = true;
};

}  // namespace tenon::launcher
