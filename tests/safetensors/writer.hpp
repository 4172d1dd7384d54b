// writer.hpp: safetensors files for tests. Tensors follow one another; a header can also be given as text.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tenon::test {

inline std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  return out + header + data;
}

class Writer {
 public:
  Writer& tensor(const std::string& name, const std::string& type, const std::vector<int64_t>& shape,
                 const std::string& data) {
    std::string dims;
    for (const int64_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    header_ += (header_.empty() ? "\"" : ",\"") + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + dims +
               "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + data.size()) + "]}";
    data_ += data;
    return *this;
  }
  std::string build() const { return with_header("{" + header_ + "}", data_); }

 private:
  std::string header_, data_;
};

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace tenon::test
