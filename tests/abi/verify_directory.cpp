// Opens every plugin of the directories given and prints the report. Exit status 0: all are good.
#include <cstdio>

#include "plugin/report.hpp"

int main(int n_arguments, char** arguments) {
  tenon::plugin::PluginHostOptions options;
  options.use_default_path = false;
  options.plugin_path.assign(arguments + 1, arguments + n_arguments);
  tenon::plugin::PluginHost host(options);
  bool all_good = false;
  std::fputs(tenon::plugin::report_verify(host, false, &all_good).c_str(), stdout);
  return all_good ? 0 : 1;
}
