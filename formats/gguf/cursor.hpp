// cursor.hpp: reads a file's begin step by step. Every failure names the file, the field and the byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tenon/sdk/base.hpp>

namespace tenon::gguf {

// "text" in single quotes, with control bytes escaped and cut after 64 bytes: names come from the file.
std::string quoted(std::string_view text);

[[noreturn]] void fail_at(std::string_view file, const std::string& field, uint64_t offset, const std::string& message,
                          tenon_status status = TENON_CORRUPT);

class Cursor {
 public:
  Cursor(std::string_view file, const uint8_t* data, uint64_t size) : file_(file), data_(data), size_(size) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return size_ - offset_; }
  uint64_t size() const { return size_; }
  std::string_view file() const { return file_; }

  // The next `bytes` bytes, unaligned; `field` is called for the name of what is read when they are not there.
  template <typename Field>
  const uint8_t* take(uint64_t bytes, const Field& field) {
    if (bytes > remaining()) {
      fail_at(file_, field(), offset_,
              sdk::text("needs %llu bytes, but the file ends after %llu", (unsigned long long)bytes,
                        (unsigned long long)remaining()));
    }
    const uint8_t* begin = data_ + offset_;
    offset_ += bytes;
    return begin;
  }
  template <typename T, typename Field>
  T number(const Field& field) {
    T value;
    std::memcpy(&value, take(sizeof value, field), sizeof value);
    return value;
  }
  // A 64-bit length and that many bytes, borrowed from the file.
  template <typename Field>
  std::string_view string(const Field& field) {
    const uint64_t at = offset_;
    const auto length = number<uint64_t>([&] { return "length of " + field(); });
    if (length > remaining()) {
      fail_at(file_, "length of " + field(), at,
              sdk::text("%llu bytes, but only %llu remain in the file", (unsigned long long)length,
                        (unsigned long long)remaining()));
    }
    return {reinterpret_cast<const char*>(take(length, field)), size_t(length)};
  }

 private:
  std::string_view file_;
  const uint8_t* data_;
  uint64_t size_, offset_ = 0;
};

}  // namespace tenon::gguf
