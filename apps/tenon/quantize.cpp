#include <sys/stat.h>

#include "common.hpp"
#include "interrupt.hpp"
#include "output_file.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

void refuse_existing(const std::string& path, bool force) {
  struct stat found = {};
  if (!force && stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode))
    throw Error(ErrorKind::kUsage, "'" + path + "' is there already; --force replaces it");
}

// "gemma.gguf: 1.02 GB to 341.2 MB, 4.61 bits a weight (q4_k 96 tensors, …)".
std::string summary(const QuantizeReport& report, const std::string& path) {
  std::string types;
  for (const auto& [name, type] : report.types)
    types += (types.empty() ? "" : ", ") + name + " " + std::to_string(type.tensors);
  const double bits =
      report.values ? 8.0 * static_cast<double>(report.tensor_bytes) / static_cast<double>(report.values) : 0;
  return path + ": " + size_text(report.bytes_before) + " to " + size_text(report.tensor_bytes) + ", " +
         fixed(bits, 2) + " bits a weight; tensors: " + types +
         (report.tensors_left_out ? ", left out " + std::to_string(report.tensors_left_out) : "");
}

}  // namespace

int quantize(const Arguments& arguments) {
  QuantizeOptions options;
  options.path = arguments.positional()[0];
  options.out_path = arguments.positional()[1];
  options.type = text_or_usage_error(arguments, "type");
  options.threads = static_cast<uint32_t>(arguments.integer("threads", 0));
  options.cancelled = interrupted;
  refuse_existing(options.out_path, arguments.on("force"));
  Engine engine(engine_options(arguments));
  OutputFile file("OUT", options.out_path);
  QuantizeReport report;
  {
    ProgressBar bar(stderr_is_terminal(), arguments.on("verbose"));
    options.progress = [&bar](const Progress& progress) { bar.update(progress); };
    report = engine.quantize(options, [&file](uint64_t offset, std::span<const uint8_t> bytes) {
      file.write(offset, bytes.data(), bytes.size());
    });
  }
  stop_if_interrupted();
  file.sync();
  file.finish();
  note(summary(report, options.out_path));
  if (!report.has_tokenizer)
    note("warning: '" + options.path +
         "' has no tokenizer, so what was written takes token ids and no text; of a folder, "
         "tokenizer.json belongs beside the weights");
  return 0;
}

}  // namespace tenon::launcher
