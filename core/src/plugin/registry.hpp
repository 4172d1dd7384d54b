// registry.hpp: what opened plugins have registered, and the dtypes that the core itself knows.
#pragma once

#include <tenon/abi.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugin {

struct Composite {
  std::string name, text;
};

// Grows while plugins open; records are never removed. Guarded by PluginHost.
struct Registry {
  std::vector<const tenon_format*> formats;
  std::vector<const tenon_architecture*> architectures;  // names may repeat
  std::vector<const tenon_backend*> backends;
  std::vector<const tenon_kernel*> kernels;
  std::vector<const tenon_collective*> collectives;
  std::vector<Composite> composites;

  // Null for an id or name that nobody registered. Ids below TENON_DTYPE_FIRST_REGISTERED are the core's own.
  const tenon_dtype* dtype(uint32_t id) const;
  uint32_t dtype_id(std::string_view name) const;    // TENON_DTYPE_NONE when unknown
  std::deque<const tenon_dtype*> registered_dtypes;  // id = position + TENON_DTYPE_FIRST_REGISTERED
};

}  // namespace tenon::plugin
