#include "places.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace tenon::engine {
namespace {

std::string counted(uint32_t n_devices, std::string_view backend) {
  return n_devices == 1 ? fmt::format("backend {} has 1 device, number 0", backend)
                        : fmt::format("backend {} has {} devices, numbers 0 to {}", backend, n_devices, n_devices - 1);
}

}  // namespace

std::vector<uint32_t> devices_of_ranks(std::span<const uint32_t> asked, uint32_t n_ranks, uint32_t n_devices, std::string_view backend) {
  std::vector<uint32_t> out(n_ranks, 0);
  if (asked.empty()) {
    if (n_devices >= n_ranks) std::iota(out.begin(), out.end(), 0);
    return out;
  }
  if (asked.size() != n_ranks)
    throw Error(ErrorKind::kUsage, fmt::format("--devices: {} {} named for {} {}", asked.size(), asked.size() == 1 ? "device is" : "devices are",
                                               n_ranks, n_ranks == 1 ? "rank" : "ranks"));
  for (uint32_t rank = 0; rank < n_ranks; ++rank) {
    if (asked[rank] >= n_devices) throw Error(ErrorKind::kUsage, fmt::format("--devices: no device {}: {}", asked[rank], counted(n_devices, backend)));
    out[rank] = asked[rank];
  }
  return out;
}

void refuse_shared_devices(std::span<const uint32_t> devices, uint32_t n_devices, std::string_view backend) {
  for (size_t rank = 1; rank < devices.size(); ++rank) {
    const auto earlier = std::find(devices.begin(), devices.begin() + std::ptrdiff_t(rank), devices[rank]);
    if (earlier != devices.begin() + std::ptrdiff_t(rank))
      throw Error(ErrorKind::kUsage, fmt::format("device {} for ranks {} and {}: each rank needs a device of its own; {}", devices[rank],
                                                 earlier - devices.begin(), rank, counted(n_devices, backend)));
  }
}

}  // namespace tenon::engine
