// core_dtypes.hpp: the plain number types that the core registers itself.
#pragma once

#include <tenon/abi.h>

#include <string_view>

namespace tenon::plugin {

const tenon_dtype* core_dtype(uint32_t id);     // null when the core has no such id
uint32_t core_dtype_id(std::string_view name);  // TENON_DTYPE_NONE when the core has no such name

}  // namespace tenon::plugin
