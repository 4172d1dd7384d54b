// mini_gguf.hpp: the metadata of a GGUF file, read without the format plugin so that tests of other parts need none.
#pragma once

#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_metadata.hpp"

namespace tenon::test {

// Trusts the file but for its ends. Throws std::runtime_error when it cannot be read.
class MiniGguf {
 public:
  static std::unique_ptr<FakeMetadata> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path);
    MiniGguf reader{std::string(std::istreambuf_iterator<char>(file), {})};
    return reader.parse();
  }

 private:
  explicit MiniGguf(std::string bytes) : bytes_(std::move(bytes)) {}

  std::unique_ptr<FakeMetadata> parse() {
    if (take(4) != "GGUF") throw std::runtime_error("not a GGUF file");
    number<uint32_t>();
    number<int64_t>();
    const auto n_values = number<int64_t>();
    auto out = std::make_unique<FakeMetadata>();
    for (int64_t i = 0; i < n_values; ++i) {
      const std::string key(text());
      read_value(*out, key, number<uint32_t>());
    }
    return out;
  }

  void read_value(FakeMetadata& out, const std::string& key, uint32_t type) {
    switch (type) {
      case 0:
        return out.set_integer(key, number<uint8_t>(), TENON_VALUE_U8);
      case 1:
        return out.set_integer(key, number<int8_t>(), TENON_VALUE_I8);
      case 2:
        return out.set_integer(key, number<uint16_t>(), TENON_VALUE_U16);
      case 3:
        return out.set_integer(key, number<int16_t>(), TENON_VALUE_I16);
      case 4:
        return out.set_integer(key, number<uint32_t>(), TENON_VALUE_U32);
      case 5:
        return out.set_integer(key, number<int32_t>(), TENON_VALUE_I32);
      case 6:
        return out.set_real(key, number<float>(), TENON_VALUE_F32);
      case 7:
        return out.set_integer(key, number<uint8_t>() != 0, TENON_VALUE_BOOL);
      case 8:
        return out.set_string(key, text());
      case 9:
        return read_array(out, key);
      case 10:
        return out.set_integer(key, number<int64_t>(), TENON_VALUE_U64);
      case 11:
        return out.set_integer(key, number<int64_t>(), TENON_VALUE_I64);
      case 12:
        return out.set_real(key, number<double>(), TENON_VALUE_F64);
      default:
        throw std::runtime_error(key + ": type " + std::to_string(type));
    }
  }

  void read_array(FakeMetadata& out, const std::string& key) {
    const auto type = number<uint32_t>();
    const auto count = static_cast<size_t>(number<uint64_t>());
    if (type == 8) {
      std::vector<tenon_str> items;
      for (size_t i = 0; i < count; ++i) items.push_back(out.keep(text()));
      return out.set_array(key, TENON_VALUE_STRING, items.data(), count, sizeof(tenon_str));
    }
    static constexpr struct {
      uint32_t type;
      size_t size;
    } kKinds[] = {{TENON_VALUE_U8, 1},
                  {TENON_VALUE_I8, 1},
                  {TENON_VALUE_U16, 2},
                  {TENON_VALUE_I16, 2},
                  {TENON_VALUE_U32, 4},
                  {TENON_VALUE_I32, 4},
                  {TENON_VALUE_F32, 4},
                  {TENON_VALUE_BOOL, 1},
                  {0, 0},
                  {0, 0},
                  {TENON_VALUE_U64, 8},
                  {TENON_VALUE_I64, 8},
                  {TENON_VALUE_F64, 8}};
    if (type > 12 || kKinds[type].size == 0) throw std::runtime_error(key + ": array of type " + std::to_string(type));
    const std::string_view data = take(count * kKinds[type].size);
    out.set_array(key, kKinds[type].type, data.data(), count, kKinds[type].size);
  }

  std::string_view take(size_t size) {
    if (size > bytes_.size() - pos_) throw std::runtime_error("the file ends early");
    pos_ += size;
    return std::string_view(bytes_).substr(pos_ - size, size);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text() { return take(static_cast<size_t>(number<uint64_t>())); }

  std::string bytes_;
  size_t pos_ = 0;
};

}  // namespace tenon::test
