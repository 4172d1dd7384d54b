// Where plugins are looked for.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <optional>

#include "plugin/search_path.hpp"
#include "plugin_tree.hpp"

namespace tenon::test {
namespace {

// Sets variables and puts the old values back.
class Environment {
 public:
  void set(const char* name, const std::string& value) {
    remember(name);
    setenv(name, value.c_str(), 1);
  }
  void unset(const char* name) {
    remember(name);
    unsetenv(name);
  }
  ~Environment() {
    for (const auto& [name, value] : old_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

 private:
  void remember(const char* name) {
    const char* value = getenv(name);
    old_.emplace(name, value ? std::optional<std::string>(value) : std::nullopt);
  }
  std::map<std::string, std::optional<std::string>> old_;
};

std::vector<std::string> searched(const std::vector<std::string>& given, bool defaults = true) {
  std::vector<std::string> paths;
  for (const plugin::SearchDirectory& directory : plugin::search_directories(given, defaults))
    if (directory.origin != "install directory" && directory.origin != "build tree") paths.push_back(directory.path);
  return paths;
}

TEST(PluginSearch, GivenThenEnvironmentThenUser) {
  PluginTree tree;
  const fs::path user = tree.path() / "data/tenon/plugins";
  for (const char* name : {"a", "b", "c", "d"}) fs::create_directory(tree.path() / name);
  fs::create_directories(user);
  const auto at = [&](const char* name) { return (tree.path() / name).string(); };
  Environment environment;
  environment.set("XDG_DATA_HOME", at("data"));
  environment.set("TENON_PLUGIN_PATH", at("c") + "::" + at("missing") + ":" + at("d"));
  EXPECT_EQ(searched({at("b"), at("a")}), (std::vector<std::string>{at("b"), at("a"), at("c"), at("d"), user}));
  EXPECT_EQ(searched({at("b")}, false), std::vector<std::string>{at("b")});
  EXPECT_EQ(searched({at("d"), at("d") + "/../d"}), (std::vector<std::string>{at("d"), at("c"), user}));
}

TEST(PluginSearch, WithoutXdgTheHomeDirectoryCounts) {
  PluginTree tree;
  const fs::path user = tree.path() / ".local/share/tenon/plugins";
  fs::create_directories(user);
  Environment environment;
  environment.unset("TENON_PLUGIN_PATH");
  environment.unset("XDG_DATA_HOME");
  environment.set("HOME", tree.path());
  EXPECT_EQ(searched({}), std::vector<std::string>{user});
  environment.set("XDG_DATA_HOME", "relative");
  EXPECT_EQ(searched({}), std::vector<std::string>{user});
}

TEST(PluginSearch, NeverTheCurrentDirectory) {
  PluginTree tree;
  tree.add("fake");
  const fs::path before = fs::current_path();
  fs::current_path(tree.path());
  Environment environment;
  environment.set("TENON_PLUGIN_PATH", ":.::./:");
  environment.set("XDG_DATA_HOME", "");
  environment.set("HOME", "");
  const std::vector<std::string> paths = searched({""});
  fs::current_path(before);
  EXPECT_EQ(paths, std::vector<std::string>{});
}

TEST(PluginSearch, AProgramInABuildTreeFindsTheBuildsPlugins) {
  bool found = false;
  for (const plugin::SearchDirectory& directory : plugin::search_directories({}, true))
    found |= directory.origin == "build tree" && fs::path(directory.path).filename() == "plugins";
  const fs::path build = fs::read_symlink("/proc/self/exe").parent_path() / "../..";
  EXPECT_EQ(found, fs::is_directory(build / "plugins"));
}

TEST(PluginSearch, TheFirstOfTwoPluginsWithOneNameIsUsed) {
  PluginTree first, second;
  first.add("fake"), second.add("fake");
  const plugin::PluginHost host({.plugin_path = {second.path(), first.path()}, .use_default_path = false});
  ASSERT_EQ(host.plugins().size(), 2u);
  EXPECT_EQ(host.plugins()[0].refusal, "");
  EXPECT_EQ(host.plugins()[0].manifest_path, second.path() / "libtenon_fake.so.tenon.txtpb");
  const std::string& refusal = host.plugins()[1].refusal;
  EXPECT_NE(refusal.find(first.path() / "libtenon_fake.so.tenon.txtpb"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("the name fake is taken by " + host.plugins()[0].manifest_path), std::string::npos) << refusal;
}

TEST(PluginSearch, ABrokenManifestDoesNotTakeTheName) {
  PluginTree first, second;
  write_file(first.add("fake").string() + ".tenon.txtpb", "name: \"fake\"\n");
  second.add("fake");
  const plugin::PluginHost host({.plugin_path = {first.path(), second.path()}, .use_default_path = false});
  ASSERT_EQ(host.plugins().size(), 2u);
  EXPECT_NE(host.plugins()[0].refusal, "");
  EXPECT_EQ(host.plugins()[1].refusal, "");
}

TEST(PluginSearch, OnlyManifestsAreLookedAtAndNotThoseOfSubdirectories) {
  PluginTree tree;
  tree.add("fake", "below");
  write_file(tree.path() / "readme.txt", "hello");
  write_file(tree.path() / "libtenon_x.so", "hello");
  EXPECT_TRUE(host_of(tree.path()).plugins().empty());
}

}  // namespace
}  // namespace tenon::test
