#include "plugin_tree.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "plugin/sha256.hpp"

namespace tenon::test {

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string sha256(const fs::path& path) {
  const std::string bytes = read_file(path);
  plugin::Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.hex();
}

PluginTree::PluginTree() {
  std::string pattern = (fs::temp_directory_path() / "tenon-plugin-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = fs::canonical(pattern);
}
PluginTree::~PluginTree() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path PluginTree::add(const std::string& fake, const fs::path& below) {
  const std::string file = "libtenon_" + fake + ".so";
  const fs::path directory = path_ / below;
  fs::create_directories(directory);
  fs::copy_file(fs::path(FAKE_DIR) / file, directory / file);
  rehash(fake, directory / file);
  return directory / file;
}

fs::path PluginTree::add_architecture(const std::string& fake, const fs::path& below, int priority) {
  const fs::path library = add(fake, below);
  write_file(library.string() + ".tenon.txtpb",
             "name: \"" + fake + "\"\nversion: \"1.2.3\"\nkind: ARCHITECTURE\nabi_major: " +
                 std::to_string(TENON_ABI_MAJOR) + "\nabi_minor: " + std::to_string(TENON_ABI_MINOR) +
                 "\narchitecture: \"fake.model\"\nlibrary: \"" + library.filename().string() + "\"\nsha256: \"" +
                 sha256(library) + "\"\npriority: " + std::to_string(priority) + "\n");
  return library;
}

std::string PluginTree::manifest(const std::string& name, const std::string& library, const std::string& hash) {
  return "name: \"" + name + "\"\nversion: \"1.2.3\"\nkind: FORMAT\nabi_major: " + std::to_string(TENON_ABI_MAJOR) +
         "\nabi_minor: " + std::to_string(TENON_ABI_MINOR) +
         "\nformat: \"fake\"\nformat_magic: \"FAKE\"\nformat_extension: \".fake\"\nlibrary: \"" + library +
         "\"\nsha256: \"" + hash + "\"\n";
}

void PluginTree::rehash(const std::string& name, const fs::path& library) {
  write_file(library.string() + ".tenon.txtpb", manifest(name, library.filename().string(), sha256(library)));
}

plugin::PluginHost host_of(const fs::path& directory) {
  return plugin::PluginHost({.plugin_path = {directory.string()}, .use_default_path = false});
}

std::string refusal_of(const fs::path& directory) {
  plugin::PluginHost host = host_of(directory);
  host.verify_all();
  EXPECT_EQ(host.plugins().size(), 1u);
  if (host.plugins().size() != 1) return "";
  const plugin::PluginRecord& record = host.plugins()[0];
  EXPECT_EQ(record.opened, record.refusal.empty());
  // What is refused leaves nothing behind.
  EXPECT_EQ(host.registry().formats.size(), record.refusal.empty() ? 1u : 0u);
  return record.refusal;
}

}  // namespace tenon::test
