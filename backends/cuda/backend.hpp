// backend.hpp: the table of the CUDA devices.
#pragma once

#include <tenon/abi.h>

namespace tenon::cuda {

// Streams, events and graphs cross as the runtime's own cudaStream_t, cudaEvent_t and cudaGraphExec_t.
const tenon_backend* backend_record();

}  // namespace tenon::cuda
