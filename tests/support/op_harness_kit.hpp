// A fake host for tests of plugins: opens their libraries, collects kernels, dtypes and backends, and answers them.
#pragma once

#include <tenon/abi.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kit/records.hpp"

namespace tenon::testing {

using namespace kit;

// One a process, since a plugin keeps its host's address until the end. Not for use by several threads while loading.
class Kit final : public Records {
 public:
  static Kit& instance();
  Kit(const Kit&) = delete;
  Kit& operator=(const Kit&) = delete;

  // Opens a library and runs its init(), once; a second call with the same path does nothing. Throws with the reason.
  void load(const std::string& path);
  // The same for a plugin that is linked into the test.
  void add(const tenon_plugin* plugin);
  // Registers a record of the test's own.
  uint32_t add_dtype(const tenon_dtype* record);

  const tenon_kernel& kernel(std::string_view name) const override;  // throws when there is none
  std::vector<const tenon_kernel*> kernels(std::string_view pattern, std::string_view backend = "") const;
  const std::vector<const tenon_kernel*>& all_kernels() const { return kernels_; }
  const tenon_backend& backend(std::string_view name) const;
  const tenon_dtype* dtype_record(uint32_t id) const override;  // null when unknown
  uint32_t dtype_id(std::string_view name) const override;      // throws when unknown
  bool has_dtype(std::string_view name) const;
  const tenon_host& host() const { return host_; }

  // What the last failing call on this thread said.
  std::string error() const override;
  // Values that host.config() answers ("threads").
  void set_config(const std::string& name, int64_t value) { config_[name] = value; }

 private:
  Kit();
  tenon_host host_ = {};
  tenon_registrar registrar_ = {};
  std::vector<std::string> loaded_;
  std::vector<const tenon_plugin*> plugins_;
  std::vector<const tenon_kernel*> kernels_;
  std::vector<const tenon_backend*> backends_;
  std::map<uint32_t, const tenon_dtype*> dtypes_;
  std::map<std::string, int64_t> config_;
  friend struct KitCalls;
};

// Records of the float and integer dtypes that the core registers, ids 1 … 9.
const std::vector<const tenon_dtype*>& core_dtypes();

}  // namespace tenon::testing
