#include "model_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <tenon/error.hpp>

#include "../plugin/host_table.hpp"
#include "../plugin/plugin_host.hpp"
#include "opened_source.hpp"

namespace tenon::source {
namespace {

constexpr uint64_t kHeadBytes = 64 << 10;
constexpr size_t kMostCandidates = 4096;

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
  for (const std::string& format : plugins.installed(&plugin::PluginRecord::formats)) names += (names.empty() ? "" : ", ") + format;
  std::string text = names.empty() ? "no format plugin is installed" : "installed formats: " + names;
  if (const std::string refusals = plugins.refusals(); !refusals.empty()) text += "; refused plugins: " + refusals;
  return text;
}

struct Probed {
  std::unique_ptr<MappedFile> file;
  std::vector<uint8_t> head;
  const tenon_format* format = nullptr;
  uint32_t score = 0;
};

// The format that is surest of the file; null when none takes it.
Probed probe(const std::string& path, plugin::PluginHost& plugins) {
  Probed out;
  out.file = std::make_unique<MappedFile>(path);
  out.head.resize(std::min(out.file->size(), kHeadBytes));
  if (!out.file->read(0, out.head.data(), out.head.size())) {
    throw Error(ErrorKind::kFile,
                "model file '" + path + "': its first " + std::to_string(out.head.size()) + " bytes cannot be read");
  }
  const std::string_view name = out.file->base_name();
  plugins.open_formats(out.head, name);
  for (const tenon_format* format : plugins.registry().formats) {
    uint32_t score = 0;
    const tenon_status status =
        format->probe(format->self, out.head.data(), out.head.size(), {name.data(), name.size()}, &score);
    if (status == TENON_OK && score > out.score) out.format = format, out.score = score;
  }
  return out;
}

// Names in the directory with an ending that an installed format has, sorted.
std::vector<std::string> candidates(const std::string& directory, const plugin::PluginHost& plugins) {
  const auto is_candidate = [&plugins](const std::string& name) {
    for (const plugin::PluginRecord& record : plugins.plugins())
      for (const std::string& extension : record.format_extensions)
        if (record.refusal.empty() && name.ends_with(extension)) return true;
    return false;
  };
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_candidate(name) && it->is_regular_file(error)) names.push_back(name);
    if (names.size() > kMostCandidates)
      throw Error(ErrorKind::kFile, "model '" + directory + "' is a directory with more than " +
                                        std::to_string(kMostCandidates) + " model files; name one of them");
  }
  if (error) throw Error(ErrorKind::kFile, "model '" + directory + "' cannot be listed: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The file of a directory to begin with: the one that its format is surest of.
Probed probe_directory(const std::string& directory, plugin::PluginHost& plugins) {
  const std::string prefix = directory.ends_with('/') ? directory : directory + "/";
  Probed best;
  std::string also;
  for (const std::string& name : candidates(directory, plugins)) {
    Probed one = probe(prefix + name, plugins);
    if (!one.format || one.score < best.score) continue;
    if (best.file && one.score == best.score) {
      also = name;
      continue;
    }
    best = std::move(one);
    also.clear();
  }
  if (!best.format)
    throw Error(ErrorKind::kFile,
                "model '" + directory + "' is a directory without a model file (" + installed_formats(plugins) + ")");
  if (!also.empty())
    throw Error(ErrorKind::kFile, "model '" + directory + "' is a directory with several models, '" +
                                      std::string(best.file->base_name()) + "' and '" + also +
                                      "' among them; name one of the files");
  return best;
}

bool is_directory(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::unique_ptr<ModelSource> ModelSource::open(const std::string& path, plugin::PluginHost& plugins) {
  Probed found = is_directory(path) ? probe_directory(path, plugins) : probe(path, plugins);
  if (!found.format) {
    throw Error(ErrorKind::kFile, "model file '" + path + "' begins with " + first_bytes(found.head) +
                                      ", which no format plugin takes; " + installed_formats(plugins));
  }
  // A format may yield a dtype that comes with its kernels.
  const plugin::OpenDtype open_dtype = [&](std::string_view name) { return plugins.open_dtype(name) != 0; };
  const plugin::DtypeScope scope(open_dtype);
  return std::make_unique<OpenedSource>(*found.format, std::move(found.file), plugins.registry());
}

}  // namespace tenon::source
