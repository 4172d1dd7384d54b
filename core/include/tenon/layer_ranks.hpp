// layer_ranks.hpp: lists that say which ranks have which layers.
#pragma once

#include <string_view>

namespace tenon {

// Whether `list` is one as "0-3@0,1;7@2,3", or with `takes_all` also "all@0,1". Throws Error(kUsage), naming `option` and the
// item, where it is not. Says nothing of the layers and ranks that there are: those are known when a model is loaded.
void check_layer_ranks(std::string_view option, std::string_view list, bool takes_all);

}  // namespace tenon
