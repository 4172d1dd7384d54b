// registrar.hpp: takes what a plugin registers, checks it, and keeps it apart until init() has succeeded.
#pragma once

#include <tenon/abi.h>

#include <string>

#include "registry.hpp"

namespace tenon::plugin {

// One for each init(), on its thread. Lives as long as the process, since a plugin may keep the pointer: calls after
// close() are refused.
class Registrar {
 public:
  // `known`: what the host has so far; names in it are taken.
  explicit Registrar(const Registry& known);
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  const tenon_registrar* table() const { return &table_; }
  const Registry& staged() const { return staged_; }
  void close() { known_ = nullptr; }

 private:
  template <typename Record>
  tenon_status stage(const Record* record, std::vector<const Record*> Registry::*list, const char* what) noexcept;
  tenon_status stage_dtype(const tenon_dtype* record, uint32_t* id) noexcept;
  tenon_status stage_kernels(const tenon_kernel* const* records, uint32_t n) noexcept;
  tenon_status stage_composite(tenon_str name, tenon_str text) noexcept;

  const Registry* known_;
  Registry staged_;
  tenon_registrar table_;
};

// "" when no name of `staged` is taken in `known`; else which one. Dtypes are not compared: they are the process's.
std::string name_conflict(const Registry& known, const Registry& staged);
void merge(Registry& into, const Registry& staged);  // all but dtypes

}  // namespace tenon::plugin
