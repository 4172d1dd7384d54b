// bandwidth.hpp: how fast a device reads its memory, for what a plan may expect.
#pragma once

#include "device.hpp"

#include <cstdint>

namespace tenon::program {

// Bytes a second, the best of a few passes over memory that no cache holds: by `n_workers` at once where the device's memory is
// the host's, else by copies inside the device, which read and write. Takes about a tenth of a second and 256 MiB. Throws
// Error(kCapacity) where there is no room.
double read_bandwidth(const Device& device, uint32_t n_workers);

}  // namespace tenon::program
