// pack.hpp: packing of weights, for the kernels' pack().
#pragma once

#include "ops.hpp"

namespace tenon::cuda {

// Packs rows row0 … of a block-quantised weight from host memory into device memory of any device. Throws sdk::Error.
void pack_weight(const tenon_pack& pack);

}  // namespace tenon::cuda
