#include "search_path.hpp"

#include <pwd.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "log.hpp"
#include "manifest.hpp"

namespace tenon::plugin {
namespace {

namespace fs = std::filesystem;

class PathList {
 public:
  // `must_exist`: the user named it, so its absence is worth a line.
  void add(const fs::path& path, const char* origin, bool must_exist) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || !fs::is_directory(real, error)) {
      if (must_exist) log(TENON_LOG_WARNING, std::string(origin) + ": " + path.string() + " is not a directory");
      return;
    }
    const bool known = std::any_of(directories_.begin(), directories_.end(),
                                   [&](const SearchDirectory& entry) { return entry.path == real.native(); });
    if (!known) directories_.push_back({real.native(), origin});
  }
  std::vector<SearchDirectory> take() { return std::move(directories_); }

 private:
  std::vector<SearchDirectory> directories_;
};

void add_environment(PathList& list) {
  const char* text = std::getenv("TENON_PLUGIN_PATH");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path entry(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (entry.empty()) continue;
    if (entry.is_relative()) {
      log(TENON_LOG_WARNING, "TENON_PLUGIN_PATH: " + entry.string() + " is left out; expected an absolute path");
      continue;
    }
    list.add(entry, "TENON_PLUGIN_PATH", true);
  }
}

void add_user_directory(PathList& list) {
  fs::path data = std::getenv("XDG_DATA_HOME") ? std::getenv("XDG_DATA_HOME") : "";
  if (!data.is_absolute()) {
    fs::path home = std::getenv("HOME") ? std::getenv("HOME") : "";
    if (!home.is_absolute()) return;
    data = home / ".local" / "share";
  }
  list.add(data / "tenon" / "plugins", "user directory", false);
}

void add_program_directories(PathList& list) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return;
  const fs::path directory = program.parent_path();
  // Relative to the program, so that an install tree can be moved.
  list.add(directory / ".." / TENON_INSTALL_LIBDIR / "tenon" / "plugins", "install directory", false);
  const fs::path build = directory / ".." / "..";
  if (fs::exists(build / "CMakeCache.txt", error)) list.add(build / "plugins", "build tree", false);
}

}  // namespace

std::vector<SearchDirectory> search_directories(const std::vector<std::string>& given, bool use_default_path) {
  PathList list;
  for (const std::string& path : given)
    if (!path.empty()) list.add(path, "--plugin-path", true);
  if (use_default_path) {
    if (getauxval(AT_SECURE) == 0) {
      add_environment(list);
      add_user_directory(list);
    }
    add_program_directories(list);
  }
  return list.take();
}

std::vector<std::string> manifests_in(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (it->path().native().ends_with(kManifestSuffix)) paths.push_back(it->path().native());
  if (error) log(TENON_LOG_WARNING, directory + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace tenon::plugin
