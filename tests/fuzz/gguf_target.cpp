// A GGUF file as a whole model.
#include "memory_file.hpp"
#include "target.hpp"
#include "whole_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static tenon::fuzz::MemoryFile file;
  static tenon::fuzz::WholeModel model;
  file.set(data, size);
  model.check(file.path(), size);
  return 0;
}
