// arena.hpp: where each value lives: one shared arena, and one for every worker's own copies. Addresses are reused when no
// worker can still read the old contents.
#pragma once

#include "select.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <vector>

namespace tenon::program {

struct Place {
  bool is_private = false;  // an offset into each worker's own arena
  bool is_placed = false;   // false: an input of the step, or never written
  uint64_t offset = 0;
};

struct ArenaPlan {
  std::vector<Place> values;          // by value id; views have their value's
  std::vector<uint64_t> workspaces;   // by node: offset in the shared arena
  uint64_t shared_bytes = 0, private_bytes = 0;
};

// Liveness over the node list: a shared value's memory is free from the first barrier after its last reader on.
//   pinned  values that must survive to the end
ArenaPlan plan_arena(const Selection& selection, const std::vector<tenon_plan>& plans, const std::vector<bool>& barriers,
                     const std::vector<int32_t>& pinned, uint32_t max_rows, uint32_t max_outputs, uint32_t n_workers);

}  // namespace tenon::program
