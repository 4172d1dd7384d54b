// host_table.hpp: the functions that plugins call. One table a process, valid until its end: a library is initialised once,
// however many hosts use it, and keeps the table it was given.
#pragma once

#include "registry.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <string_view>
#include <variant>

namespace tenon::plugin {

const tenon_host* host_table();

// Answers to host->config(). A later value replaces an earlier one for later questions. Any thread.
using ConfigValue = std::variant<int64_t, double, std::string_view>;
void set_config(std::string_view key, const ConfigValue& value);

// Dtypes of all opened libraries; ids are the same for every host in the process. Only the opening code appends.
void append_dtypes(const Registry& staged);
size_t n_dtypes();                   // registered ones, without the core's
const tenon_dtype* dtype_at(size_t i);  // null beyond the end
inline constexpr size_t kMaxDtypes = 4096;

// While it lives, this thread's host calls see the dtypes of a plugin whose init() has not ended.
class PendingScope {
 public:
  explicit PendingScope(const Registry* staged);
  ~PendingScope();
  PendingScope(const PendingScope&) = delete;
  PendingScope& operator=(const PendingScope&) = delete;
};

}  // namespace tenon::plugin
