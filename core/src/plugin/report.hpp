// report.hpp: what `tenon plugins list|verify|info` print.
#pragma once

#include <string>

#include "plugin_host.hpp"

namespace tenon::plugin {

// What the manifests say. Opens nothing.
std::string report_list(const PluginHost& host, bool json);

// Opens every plugin that is not refused and says of each whether it is good. `all_good`: none was refused, at least one was found.
std::string report_verify(PluginHost& host, bool json, bool* all_good);

// One plugin: its manifest and, after opening it, what it registered. Throws Error(kUsage) for a name that is not
// found.
std::string report_info(PluginHost& host, const std::string& name, bool json);

}  // namespace tenon::plugin
