#include "model_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <tenon/error.hpp>

#include "../plugin/host_table.hpp"
#include "../plugin/plugin_host.hpp"
#include "opened_source.hpp"

namespace tenon::source {
namespace {

constexpr uint64_t kHeadBytes = 64 << 10;

// The first bytes as text and as numbers, for people who wonder what the file is.
std::string first_bytes(std::span<const uint8_t> head) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text, numbers;
  for (const uint8_t byte : head.first(std::min<size_t>(head.size(), 8))) {
    text += byte >= 0x20 && byte < 0x7f ? char(byte) : '.';
    numbers += std::string(numbers.empty() ? "" : " ") + kHex[byte >> 4] + kHex[byte & 15];
  }
  return "'" + text + "' (" + numbers + ")";
}

std::string installed_formats(const plugin::PluginHost& plugins) {
  std::string names;
  for (const plugin::PluginRecord& record : plugins.plugins()) {
    if (!record.refusal.empty()) continue;
    for (const std::string& format : record.formats) names += (names.empty() ? "" : ", ") + format;
  }
  std::string text = names.empty() ? "no format plugin is installed" : "installed formats: " + names;
  if (const std::string refusals = plugins.refusals(); !refusals.empty()) text += "; refused plugins: " + refusals;
  return text;
}

const tenon_format* best_format(const plugin::Registry& registry, std::span<const uint8_t> head,
                                std::string_view name) {
  const tenon_format* best = nullptr;
  uint32_t best_score = 0;
  for (const tenon_format* format : registry.formats) {
    uint32_t score = 0;
    const tenon_status status =
        format->probe(format->self, head.data(), head.size(), {name.data(), name.size()}, &score);
    if (status == TENON_OK && score > best_score) best = format, best_score = score;
  }
  return best;
}

bool is_directory(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::unique_ptr<ModelSource> ModelSource::open(const std::string& path, plugin::PluginHost& plugins) {
  if (is_directory(path)) {
    throw Error(ErrorKind::kFile, "model '" + path + "' is a directory, and no installed format reads directories (" +
                                      installed_formats(plugins) + "); name a model file");
  }
  auto file = std::make_unique<MappedFile>(path);
  const std::vector<uint8_t> head = [&] {
    std::vector<uint8_t> bytes(std::min(file->size(), kHeadBytes));
    if (!file->read(0, bytes.data(), bytes.size())) {
      throw Error(ErrorKind::kFile,
                  "model file '" + path + "': its first " + std::to_string(bytes.size()) + " bytes cannot be read");
    }
    return bytes;
  }();
  plugins.open_formats(head, file->base_name());
  const tenon_format* format = best_format(plugins.registry(), head, file->base_name());
  if (!format) {
    throw Error(ErrorKind::kFile, "model file '" + path + "' begins with " + first_bytes(head) +
                                      ", which no format plugin takes; " + installed_formats(plugins));
  }
  // A format may yield a dtype that comes with its kernels.
  const plugin::OpenDtype open_dtype = [&](std::string_view name) { return plugins.open_dtype(name) != 0; };
  const plugin::DtypeScope scope(open_dtype);
  return std::make_unique<OpenedSource>(*format, std::move(file), plugins.registry());
}

}  // namespace tenon::source
