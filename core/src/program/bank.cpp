#include "bank.hpp"

#include <algorithm>

namespace tenon::program {

Bank::Bank(const Device& device, const std::array<Projection, 3>& projections) {
  const size_t n = projections[0].address.size();
  std::vector<tenon_addr> addresses;
  std::vector<float> macros;
  for (const Projection& one : projections) {
    addresses.insert(addresses.end(), one.address.begin(), one.address.end());
    macros.insert(macros.end(), one.macro.begin(), one.macro.end());
    macros.resize(addresses.size(), 1.0f);
  }
  addresses_ = Buffer(device, addresses.size() * sizeof(tenon_addr), "a table of experts");
  device.upload(addresses_.address(), addresses.data(), addresses.size() * sizeof(tenon_addr));
  table_.struct_size = sizeof table_, table_.n_expert = uint32_t(n), table_.address = addresses_.address();
  if (std::all_of(macros.begin(), macros.end(), [](float m) { return m == 1.0f; })) return;
  macros_ = Buffer(device, macros.size() * sizeof(float), "factors of experts");
  device.upload(macros_.address(), macros.data(), macros.size() * sizeof(float));
  table_.macro = macros_.address();
}

}  // namespace tenon::program
