#include "common.hpp"
#include "eval_draft.hpp"
#include "verbs.hpp"

namespace tenon::launcher {

int inspect(const Arguments& arguments) {
  InspectOptions options;
  options.json = arguments.on("json");
  options.tensors = arguments.on("tensors");
  options.plan = arguments.on("plan");
  options.kernels = arguments.on("kernels");
  options.graph = arguments.on("graph");
  options.model = model_options(arguments, 0);
  options.model.draft_path = arguments.text("draft");
  if (const std::string entry = arguments.text("entry", "main"); entry != "main") options.model.entries = draft_chain(entry);
  Engine engine(engine_options(arguments));
  std::string report = engine.inspect(options.model.path, options);
  if (!report.ends_with('\n')) report += '\n';
  print(options.json ? report : printable(report));
  return 0;
}

}  // namespace tenon::launcher
