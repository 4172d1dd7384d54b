#include "common.hpp"
#include "verbs.hpp"

namespace tenon::launcher {

int plugins(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional();
  const std::string& action = words.front();
  const bool json = arguments.on("json");
  if (action == "test") throw Error(ErrorKind::kUsage, "plugins test: the plugin kit is not part of this build");
  const bool info = action == "info";
  if (!info && action != "list" && action != "verify")
    throw Error(ErrorKind::kUsage, "plugins: expected list, verify or info NAME, found '" + action + "'");
  if (info && words.size() < 2) throw Error(ErrorKind::kUsage, "plugins info: the NAME of a plugin is missing");
  if (!info && words.size() > 1)
    throw Error(ErrorKind::kUsage, "plugins " + action + ": unexpected argument '" + words[1] + "'");

  Engine engine(engine_options(arguments));
  bool all_good = true;
  std::string report = info               ? engine.plugins_info(words[1], json)
                       : action == "list" ? engine.plugins_list(json)
                                          : engine.plugins_verify(json, &all_good);
  if (!report.ends_with('\n')) report += '\n';
  print(report);
  return all_good ? 0 : Error(ErrorKind::kRuntime, "").exit_status();
}

}  // namespace tenon::launcher
