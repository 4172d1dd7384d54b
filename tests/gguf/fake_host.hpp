// fake_host.hpp: the host's table over files in memory, so that the format plugin runs without the core.
#pragma once

#include <tenon/abi.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

struct tenon_file {
  std::string name, bytes;
};

namespace tenon::test {

// One a process: the plugin keeps the pointer that init() gave it.
class FakeHost {
 public:
  static FakeHost& get();

  const tenon_format& format() const { return *format_; }
  const tenon_dtype* dtype(const std::string& name) const;
  uint32_t dtype_id(const std::string& name) const;
  std::string message;  // of the last failure

 private:
  FakeHost();
  tenon_host host_ = {};
  tenon_registrar registrar_ = {};
  const tenon_format* format_ = nullptr;
  std::deque<const tenon_dtype*> dtypes_;
};

// The format's answers for a set of files, those without a name being absent; closes it at the end.
class OpenedSet {
 public:
  explicit OpenedSet(std::vector<tenon_file> files);
  ~OpenedSet();
  OpenedSet(const OpenedSet&) = delete;

  tenon_status status() const { return status_; }
  const std::string& message() const { return message_; }
  bool value(const std::string& key, tenon_value* out) const;
  bool tensor(const std::string& name, tenon_tensor* out) const;
  std::vector<std::string> keys() const;
  std::vector<std::string> tensors() const;
  std::vector<std::string> wanted() const;

 private:
  std::vector<std::unique_ptr<tenon_file>> files_;
  tenon_status status_;
  std::string message_;
  void* source_ = nullptr;
};

}  // namespace tenon::test
