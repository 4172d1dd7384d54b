// fake_host.hpp: a host of metadata and tensor lists for tests of architectures. Not thread-safe.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// A source as a table that tests can change.
struct tenon_meta {
  struct Entry {
    uint32_t type = TENON_VALUE_NONE, element = TENON_VALUE_NONE;
    std::vector<double> numbers;  // one, or an array's
    std::vector<std::string> strings;
  };
  std::string scheme = "gguf";
  std::map<std::string, Entry, std::less<>> values;
  std::map<std::string, std::vector<int64_t>, std::less<>> tensors;  // first dimension contiguous

  // Reads a list in data/: "scheme NAME", "meta KEY TYPE VALUES…", "tensor NAME DIMS…".
  static tenon_meta load(const std::string& file_name);
  void set(const std::string& key, int64_t value) { values[key] = {TENON_VALUE_U32, 0, {double(value)}, {}}; }
  void set_real(const std::string& key, double value) { values[key] = {TENON_VALUE_F32, 0, {value}, {}}; }
  void set_string(const std::string& key, const std::string& value) {
    values[key] = {TENON_VALUE_STRING, 0, {}, {value}};
  }
  void set_array(const std::string& key, uint32_t element, std::vector<double> numbers) {
    values[key] = {TENON_VALUE_ARRAY, element, std::move(numbers), {}};
  }
  bool read(std::string_view key, tenon_value* out) const;

 private:
  // Storage behind values handed out; they live as long as the source.
  mutable std::deque<std::vector<uint64_t>> bytes_;
  mutable std::deque<std::vector<tenon_str>> texts_;
};

namespace tenon::test {

const tenon_host* fake_host();
std::string take_message();  // the slot, emptied

// Calls the plugin's entry and init and answers the architecture registered under `id`; null when there is none.
const tenon_architecture* architecture(const tenon_plugin* plugin, std::string_view id);

// A configured model, dropped at the end. `status` says how configure() ended.
class Configured {
 public:
  Configured(const tenon_architecture* architecture, const tenon_meta& meta) : architecture_(architecture) {
    status = architecture->configure(architecture->self, &meta, &model);
    message = take_message();
  }
  ~Configured() {
    if (model) architecture_->drop(model);
  }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
  tenon_status status;
  std::string message;
  void* model = nullptr;

 private:
  const tenon_architecture* architecture_;
};

}  // namespace tenon::test
