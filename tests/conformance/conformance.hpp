// What the conformance tests share.
#pragma once

#include <string>

#include "op_harness.hpp"

namespace tenon::testing {

inline void load_reference() { Kit::instance().load(std::string(TENON_PLUGIN_DIR) + "/libtenon_reference.so"); }

}  // namespace tenon::testing
