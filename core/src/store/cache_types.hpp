// cache_types.hpp: which dtypes paged stores may hold keys and values in, beside having an encoder.
#pragma once

#include <cstdint>

namespace tenon::store {

// Blocks divide a head's width, and the encoders of larger ones search too long to be run for every token.
inline constexpr uint32_t kMostBlockCols = 32;

}  // namespace tenon::store
