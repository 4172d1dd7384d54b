// A mapped file reads as zeros from its end to the end of its last page, so that reading past the end goes unnoticed.
// Here the core's mappings of files get a tail that the address sanitizer reports.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "sanitized.hpp"

#if TENON_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

extern "C" {

void* __real_mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void* address, size_t bytes);
void* __wrap_mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void* address, size_t bytes);

#if TENON_ADDRESS_SANITIZER
static size_t tail_of(size_t bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return (page - bytes % page) % page;
}
#endif

void* __wrap_mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  void* memory = __real_mmap(address, bytes, protection, flags, file, offset);
#if TENON_ADDRESS_SANITIZER
  if (memory != MAP_FAILED && file >= 0) ASAN_POISON_MEMORY_REGION(static_cast<char*>(memory) + bytes, tail_of(bytes));
#endif
  return memory;
}

int __wrap_munmap(void* address, size_t bytes) {
#if TENON_ADDRESS_SANITIZER
  ASAN_UNPOISON_MEMORY_REGION(address, bytes + tail_of(bytes));
#endif
  return __real_munmap(address, bytes);
}

}  // extern "C"
