// search_path.hpp: where plugins are looked for, and which manifests lie there.
#pragma once

#include <string>
#include <vector>

namespace tenon::plugin {

struct SearchDirectory {
  std::string path;    // without links
  std::string origin;  // "--plugin-path", "TENON_PLUGIN_PATH", "user directory", "install directory", "build tree"
};

// In the order of the search; each directory once; only those that exist. `given` comes first, then, if wanted, the
// default path: TENON_PLUGIN_PATH, the user's directory, the install directory, and the build tree for a program that
// runs from one. The current directory is never searched by itself: relative entries of the environment are left out. A
// program that runs with raised rights takes nothing from the environment.
std::vector<SearchDirectory> search_directories(const std::vector<std::string>& given, bool use_default_path);

// Paths of the manifests in a directory, sorted. Not those of its subdirectories.
std::vector<std::string> manifests_in(const std::string& directory);

}  // namespace tenon::plugin
