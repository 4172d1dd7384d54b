#include "registry.hpp"

#include "core_dtypes.hpp"

namespace tenon::plugin {

const tenon_dtype* Registry::dtype(uint32_t id) const {
  if (id < TENON_DTYPE_FIRST_REGISTERED) return core_dtype(id);
  const size_t i = id - TENON_DTYPE_FIRST_REGISTERED;
  return i < registered_dtypes.size() ? registered_dtypes[i] : nullptr;
}

uint32_t Registry::dtype_id(std::string_view name) const {
  if (const uint32_t id = core_dtype_id(name); id != TENON_DTYPE_NONE) return id;
  for (size_t i = 0; i < registered_dtypes.size(); ++i) {
    const tenon_str& known = registered_dtypes[i]->name;
    if (std::string_view(known.data, known.size) == name) return uint32_t(i) + TENON_DTYPE_FIRST_REGISTERED;
  }
  return TENON_DTYPE_NONE;
}

}  // namespace tenon::plugin
