// plugin_tree.hpp: a temporary directory with plugins in it.
#pragma once

#include <filesystem>
#include <string>

#include "plugin/plugin_host.hpp"

namespace tenon::test {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& text);
std::string read_file(const fs::path& path);
std::string sha256(const fs::path& path);

// A directory that vanishes with the object. Libraries in it may stay open: their bytes live on.
class PluginTree {
 public:
  PluginTree();
  ~PluginTree();
  PluginTree(const PluginTree&) = delete;
  PluginTree& operator=(const PluginTree&) = delete;

  const fs::path& path() const { return path_; }
  // Copies a fake's library and writes the manifest that fits it. Answers the library's path.
  fs::path add(const std::string& fake, const fs::path& below = {});
  // The same for a plugin of an architecture.
  fs::path add_architecture(const std::string& fake, const fs::path& below, int priority = 0);
  // A manifest that fits the library at `library` (relative to the manifest's directory), under that plugin name.
  static std::string manifest(const std::string& name, const std::string& library, const std::string& hash);
  // Writes again the manifest of a library that has changed.
  static void rehash(const std::string& name, const fs::path& library);

 private:
  fs::path path_;
};

// A host that searches `directory` alone.
plugin::PluginHost host_of(const fs::path& directory);
// Opens everything and answers the refusal of the one plugin that is there; "" = it is in use.
std::string refusal_of(const fs::path& directory);

}  // namespace tenon::test
