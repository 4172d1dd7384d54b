// records.hpp: what the harness asks of its surroundings: dtypes, the reference's kernels, and messages.
#pragma once

#include <tenon/abi.h>

#include <string>
#include <string_view>

namespace tenon::kit {

// Implemented over the plugin host, and by tests that need no core.
class Records {
 public:
  virtual ~Records() = default;
  virtual const tenon_dtype* dtype_record(uint32_t id) const = 0;       // null when unknown
  virtual uint32_t dtype_id(std::string_view name) const = 0;           // throws when unknown
  virtual const tenon_kernel& kernel(std::string_view name) const = 0;  // throws when there is none
  virtual std::string error() const = 0;  // what the last failing call on this thread said
  const tenon_dtype& dtype(std::string_view name) const { return *dtype_record(dtype_id(name)); }
};

// One a process. Set before the harness is used, and not changed afterwards.
void use_records(const Records& records);
const Records& records();  // throws std::logic_error when none are set

}  // namespace tenon::kit
