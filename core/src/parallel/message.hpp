// message.hpp: values in a row of bytes, as ranks send them to each other. Everything begins at a multiple of 8 bytes.
#pragma once

#include <tenon/error.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon::parallel {

class Writer {
 public:
  void number(uint64_t value) { raw(&value, sizeof value); }
  void integer(int64_t value) { raw(&value, sizeof value); }
  template <typename T>
  void array(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
    number(values.size());
    raw(values.data(), values.size_bytes());
  }
  void text(std::string_view value) { array(std::span<const char>(value)); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void raw(const void* data, size_t n) {
    const size_t at = bytes_.size();
    bytes_.resize(at + (n + 7) / 8 * 8);
    if (n) std::memcpy(bytes_.data() + at, data, n);
  }
  std::vector<uint8_t> bytes_;
};

// Borrows the bytes, which begin at a multiple of 8; so do the arrays that it answers. Throws Error(kRuntime) where a message ends
// before what is read.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}
  uint64_t number() {
    uint64_t out = 0;
    std::memcpy(&out, take(sizeof out), sizeof out);
    return out;
  }
  int64_t integer() { return int64_t(number()); }
  template <typename T>
  std::span<const T> array() {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
    const uint64_t n = number();
    if (n > left_.size() / sizeof(T)) fail();
    return {reinterpret_cast<const T*>(take(size_t(n) * sizeof(T))), size_t(n)};
  }
  std::string text() {
    const std::span<const char> value = array<char>();
    return {value.begin(), value.end()};
  }
  // A count of things of which each takes at least 8 bytes.
  size_t count() {
    const uint64_t n = number();
    if (n > left_.size() / 8) fail();
    return size_t(n);
  }
  bool is_at_end() const { return left_.empty(); }

 private:
  const uint8_t* take(size_t n) {
    const size_t padded = (n + 7) / 8 * 8;
    if (padded > left_.size()) fail();
    const uint8_t* out = left_.data();
    left_ = left_.subspan(padded);
    return out;
  }
  [[noreturn]] static void fail() { throw Error(ErrorKind::kRuntime, "a message of another rank ends too early"); }
  std::span<const uint8_t> left_;
};

}  // namespace tenon::parallel
