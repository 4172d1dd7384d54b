// kernels.hpp: kernels of a backend on host memory, served on this device: each keeps its name, its offers and its
// numbers. A launch is put on its stream; when the stream comes to it, the kernel runs with pointers.
#pragma once

#include <tenon/sdk/plugin.hpp>

namespace tenon::far {

// Runs the other plugin's init() and registers its kernels as this backend's. What it does not share with a backend,
// such as dtypes, it registers itself. Called once, during init().
void register_kernels_of(const tenon_plugin* other, sdk::Registrar& registrar);

}  // namespace tenon::far
