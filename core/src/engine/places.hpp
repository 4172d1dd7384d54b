// places.hpp: which device of the backend each rank is on.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::engine {

// By rank: the devices `asked` for, or as many devices as ranks where the backend has them, or the first for all. Throws
// Error(kUsage) where another number of devices was asked for than there are ranks, or one that the backend does not have.
std::vector<uint32_t> devices_of_ranks(std::span<const uint32_t> asked, uint32_t n_ranks, uint32_t n_devices, std::string_view backend);
// Throws Error(kUsage) where two ranks are on one device: memory of its own would hold both shares, and ranks would wait for
// each other on it.
void refuse_shared_devices(std::span<const uint32_t> devices, uint32_t n_devices, std::string_view backend);

}  // namespace tenon::engine
