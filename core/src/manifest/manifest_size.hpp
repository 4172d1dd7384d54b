// manifest_size.hpp: how long a manifest may be, of a plugin or of models.
#pragma once

#include <cstddef>

namespace tenon::manifest {

inline constexpr size_t kMaxManifestBytes = size_t(1) << 20;

}  // namespace tenon::manifest
