// backend.hpp: the "cpu" backend record.
#pragma once

#include <tenon/abi.h>

namespace tenon::cpu {

// One device, host memory, resident workers. Lives as long as the library.
const tenon_backend* backend_record();

}  // namespace tenon::cpu
