// layer_types.hpp: which layers are local and which global.
#pragma once

#include <cstdint>
#include <tenon/sdk/metadata.hpp>
#include <vector>

namespace tenon::gemma {

// One a layer, true = local. An array says it layer by layer; a number n makes every n-th layer global.
std::vector<bool> sliding_layers(const sdk::Keys& key, int64_t n);

}  // namespace tenon::gemma
