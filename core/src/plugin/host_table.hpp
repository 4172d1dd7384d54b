// host_table.hpp: the functions that plugins call. One table a process, valid until its end: a library is initialised
// once, however many hosts use it, and keeps the table it was given.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <variant>

#include "registry.hpp"

namespace tenon::plugin {

const tenon_host* host_table();

// Answers to host->config(). A later value replaces an earlier one for later questions. Any thread.
using ConfigValue = std::variant<int64_t, double, std::string_view>;
void set_config(std::string_view key, const ConfigValue& value);

// Dtypes of all opened libraries; ids are the same for every host in the process. Only the opening code appends.
void append_dtypes(const Registry& staged);
size_t n_dtypes();                      // registered ones, without the core's
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

// While it lives, a dtype that this thread asks for by name and that nobody has registered is asked of `open`, which
// opens the libraries that promise it and answers whether it opened any. `open` must outlive the scope.
using OpenDtype = std::function<bool(std::string_view name)>;
class DtypeScope {
 public:
  explicit DtypeScope(const OpenDtype& open);
  ~DtypeScope();
  DtypeScope(const DtypeScope&) = delete;
  DtypeScope& operator=(const DtypeScope&) = delete;
};

}  // namespace tenon::plugin
