// inspect.hpp: the report of `tenon inspect`: what a file holds and how this machine would run it. Loads no weights.
#pragma once

#include "plugin/plugin_host.hpp"

#include <tenon/engine.hpp>

#include <string>

namespace tenon::engine {

// Opens and checks the whole file, and beyond that builds what the options ask for. Throws Error as Engine::load() does.
std::string inspect(plugin::PluginHost& plugins, const std::string& path, const InspectOptions& options);

}  // namespace tenon::engine
