// quantize.hpp: writes a model again with other dtypes, tensor after tensor.
#pragma once

#include "plugin/plugin_host.hpp"

#include <tenon/engine.hpp>

namespace tenon::quantize {

// Engine::quantize(), see there.
QuantizeReport quantize(plugin::PluginHost& plugins, const QuantizeOptions& options, const QuantizeSink& sink);

}  // namespace tenon::quantize
