// gguf_builder.hpp: writes GGUF files for checks and tests. What is not changed is valid; every field can be given a
// wrong value, and the place of each field is known, so that a test can ask for the byte in a message.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::kit {

class GgufBuilder {
 public:
  enum Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  struct TensorSpec {
    std::string name;
    uint32_t type;
    std::vector<int64_t> dims;
    std::string data;
    int64_t offset = -1;  // in the data; -1 = the next aligned place
  };

  // Header fields, to be set before build().
  std::string magic = "GGUF";
  uint32_t version = 3;
  int64_t alignment = 32;     // used for placing; the key is written with add("general.alignment", …)
  int64_t tensor_count = -1;  // -1 = as many as there are
  int64_t key_count = -1;

  template <typename T>
  GgufBuilder& add(std::string_view key, uint32_t type, T value) {
    return raw(key, type, bytes_of(value));
  }
  GgufBuilder& add_string(std::string_view key, std::string_view value) { return raw(key, kString, counted(value)); }
  template <typename T>
  GgufBuilder& add_array(std::string_view key, uint32_t element, const std::vector<T>& values) {
    std::string out = bytes_of(element) + bytes_of(uint64_t(values.size()));
    for (const T& value : values) out += bytes_of(value);
    return raw(key, kArray, out);
  }
  GgufBuilder& add_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string out = bytes_of(uint32_t(kString)) + bytes_of(uint64_t(values.size()));
    for (const std::string& value : values) out += counted(value);
    return raw(key, kArray, out);
  }
  // A key with any bytes as its value.
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view value) {
    keys_.push_back({std::string(key), type, std::string(value)});
    return *this;
  }
  GgufBuilder& tensor(TensorSpec spec) {
    tensors_.push_back(std::move(spec));
    return *this;
  }
  TensorSpec& last_tensor() { return tensors_.back(); }

  std::string build() {
    place_.clear();
    std::string out = magic + bytes_of(version);
    place_["tensor count"] = out.size();
    out += bytes_of(tensor_count >= 0 || tensor_count < -1 ? tensor_count : int64_t(tensors_.size()));
    place_["key count"] = out.size();
    out += bytes_of(key_count >= 0 || key_count < -1 ? key_count : int64_t(keys_.size()));
    for (const Key& key : keys_) {
      place_["key " + key.name] = out.size();
      out += counted(key.name);
      place_["type " + key.name] = out.size();
      out += bytes_of(key.type);
      place_["value " + key.name] = out.size();
      out += key.value;
    }
    std::string data;
    for (const TensorSpec& tensor : tensors_) {
      place_["tensor " + tensor.name] = out.size();
      out += counted(tensor.name);
      place_["n_dims " + tensor.name] = out.size();
      out += bytes_of(uint32_t(tensor.dims.size()));
      for (size_t i = 0; i < tensor.dims.size(); ++i) {
        place_["dim " + tensor.name + " " + std::to_string(i)] = out.size();
        out += bytes_of(tensor.dims[i]);
      }
      place_["dtype " + tensor.name] = out.size();
      out += bytes_of(tensor.type);
      pad(data);
      place_["offset " + tensor.name] = out.size();
      out += bytes_of(tensor.offset >= 0 ? tensor.offset : int64_t(data.size()));
      data += tensor.data;
    }
    if (!tensors_.empty()) pad(out);
    place_["data"] = out.size();
    return out + data;
  }
  // Byte of a field in the last build: "key NAME", "value NAME", "n_dims NAME", "dim NAME 0" …
  size_t place(const std::string& field) const { return place_.at(field); }

  template <typename T>
  static std::string bytes_of(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string counted(std::string_view text) { return bytes_of(uint64_t(text.size())) + std::string(text); }

 private:
  struct Key {
    std::string name;
    uint32_t type;
    std::string value;
  };
  void pad(std::string& out) const {
    while (out.size() % size_t(alignment)) out += '\0';
  }
  std::vector<Key> keys_;
  std::vector<TensorSpec> tensors_;
  std::map<std::string, size_t> place_;
};

}  // namespace tenon::kit
