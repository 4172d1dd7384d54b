#include <tenon/kit.hpp>

#include "subject.hpp"

namespace tenon::kit {

KitReport test_plugin(const KitOptions& options) {
  const Subject subject = find_subject(options.library);
  KitReport report;
  report.library = subject.library;
  report.name = subject.manifest.name, report.version = subject.manifest.version, report.kind = subject.manifest.kind;
  std::vector<Group> groups = {library_checks(subject)};
  for (Group& group : init_checks(subject)) groups.push_back(std::move(group));
  groups.push_back(opening_checks(subject));
  for (const auto make : {dtype_checks, kernel_checks, format_checks, architecture_checks, backend_checks})
    groups.push_back(make(subject));
  size_t n_hang = 0;
  for (const Group& group : groups)
    if (!run_group(group, options, report, n_hang)) break;
  return report;
}

}  // namespace tenon::kit
