// backend.hpp: the table of the device whose memory is far.
#pragma once

#include <tenon/abi.h>

namespace tenon::far {

const tenon_backend* backend_record();

}  // namespace tenon::far
