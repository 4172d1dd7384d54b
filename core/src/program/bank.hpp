// bank.hpp: the experts of one layer on a device: a table of where each of them lies.
#pragma once

#include "device.hpp"

#include <array>
#include <vector>

namespace tenon::program {

// One of gate, up and down: an address for every expert, 0 for one that is on another rank, and factors that are applied
// after the K fold.
struct Projection {
  std::vector<tenon_addr> address;
  std::vector<float> macro;  // empty = all 1
};

// Tables in device memory; immutable.
class Bank {
 public:
  Bank(const Device& device, const std::array<Projection, 3>& projections);
  const tenon_bank* table() const { return &table_; }

 private:
  Buffer addresses_, macros_;
  tenon_bank table_ = {};
};

}  // namespace tenon::program
