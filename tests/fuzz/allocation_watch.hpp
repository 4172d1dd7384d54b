// allocation_watch.hpp: how much memory one input made the program take.
#pragma once

#include <cstdint>

namespace tenon::fuzz {

// What an input may take beyond its own size: see kAllowedBytes' users. Where the address sanitizer is there, every
// allocation of every library counts; elsewhere the growth of the process's largest resident size, which sees only what
// passes everything before it.
class AllocationWatch {
 public:
  static void install();  // once, before begin()
  static void begin();    // of an input: what is alive now does not count
  static uint64_t peak_bytes();
};

// Beyond the input's size. Models of at most 64 KiB take far less than this.
inline constexpr uint64_t kAllowedBytes = uint64_t(16) << 20;

}  // namespace tenon::fuzz
