#include <tenon/kit.hpp>

#include "common.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

int test(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional();
  if (words.size() < 2) throw Error(ErrorKind::kUsage, "plugins test: the LIBRARY of a plugin is missing");
  const EngineOptions paths = engine_options(arguments);
  kit::KitOptions options;
  options.library = words[1];
  options.plugin_path = paths.plugin_path, options.use_default_path = paths.use_default_path;
  options.files = arguments.text("files"), options.model = arguments.text("model"),
  options.only = arguments.text("only");
  options.timeout_s = uint32_t(arguments.integer("timeout", options.timeout_s));
  const bool json = arguments.on("json");
  if (!json)
    options.on_check = [](const kit::KitReport& report) {
      print((report.checks.size() == 1 ? kit::text_head(report) : "") + kit::text_of_check(report.checks.back()));
    };
  const kit::KitReport report = kit::test_plugin(options);
  if (report.checks.empty())
    throw Error(ErrorKind::kUsage, "--only: no check of this plugin has a name that contains '" + options.only + "'");
  print(json ? kit::to_json(report) : kit::text_tail(report));
  return report.passed() ? 0 : Error(ErrorKind::kRuntime, "").exit_status();
}

}  // namespace

int plugins(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positional();
  const std::string& action = words.front();
  const bool json = arguments.on("json");
  if (action == "test") return test(arguments);
  const bool info = action == "info";
  if (!info && action != "list" && action != "verify")
    throw Error(ErrorKind::kUsage, "plugins: expected list, verify, info NAME or test LIBRARY, found '" + action + "'");
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
