#include "subject.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <tenon/error.hpp>

#include "plugin/registry.hpp"

namespace tenon::kit {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in) throw Error(ErrorKind::kFile, path.string() + ": cannot be read");
  return text;
}

}  // namespace

Subject find_subject(const std::string& path) {
  std::error_code error;
  const fs::path given = fs::canonical(path, error);
  if (error) throw Error(ErrorKind::kFile, "plugin '" + path + "': " + error.message());
  Subject out;
  const std::string suffix(plugin::kManifestSuffix);
  const bool is_manifest = given.string().ends_with(suffix);
  const fs::path manifest = is_manifest ? given : fs::path(given.string() + suffix);
  if (!fs::is_regular_file(manifest, error))
    throw Error(ErrorKind::kFile,
                path + ": no manifest " + manifest.filename().string() + " beside it; tenon_add_plugin() writes one");
  out.manifest_path = manifest.string(), out.directory = manifest.parent_path().string();
  try {
    out.manifest = plugin::parse_manifest(out.manifest_path, read_text(manifest));
  } catch (const Error& fault) {
    out.manifest_fault = fault.what();
  }
  out.library = !is_manifest                 ? given.string()
                : out.manifest_fault.empty() ? (manifest.parent_path() / out.manifest.library).string()
                                             : given.string().substr(0, given.string().size() - suffix.size());
  return out;
}

Opened::Opened(const Subject& subject, const KitOptions& options) {
  plugin::PluginHostOptions where;
  where.plugin_path = {subject.directory};
  where.plugin_path.insert(where.plugin_path.end(), options.plugin_path.begin(), options.plugin_path.end());
  where.use_default_path = options.use_default_path;
  host_ = std::make_unique<plugin::PluginHost>(where);
  use_records(*this);
  const auto& plugins = host_->plugins();
  index_ = plugins.size();
  for (size_t i = 0; i < plugins.size() && index_ == plugins.size(); ++i)
    if (plugins[i].manifest_path == subject.manifest_path) index_ = i;
  if (index_ == plugins.size()) {
    fault_ = "the host does not find " + subject.manifest_path;
    return;
  }
  if (!host_->open(index_)) {
    fault_ = plugins[index_].refusal;
    return;
  }
  host_->open_backend("reference");
  for (size_t i = 0; i < plugins.size(); ++i)
    if (!plugins[i].formats.empty()) host_->open(i);  // for the dtypes of weights
  for (const tenon_kernel* kernel : contents().kernels) {
    host_->open_backend(view(kernel->backend));
    host_->open_kernels(view(kernel->backend));
  }
}

const plugin::Registry& Opened::contents() const { return host_->contents(index_); }

const tenon_backend* Opened::backend(std::string_view name) const {
  for (const tenon_backend* record : registry().backends)
    if (view(record->name) == name) return record;
  return nullptr;
}

const tenon_device* Opened::device(const tenon_backend& backend, std::string* why) const {
  uint32_t n = 0;
  const tenon_device* const* list = nullptr;
  plugin::PluginHost::take_message();
  if (backend.devices(backend.self, &n, &list) != TENON_OK) {
    *why = "backend " + text_of(backend.name) + " has no device: " + plugin::PluginHost::take_message();
    return nullptr;
  }
  if (n == 0 || list == nullptr) {
    *why = "backend " + text_of(backend.name) + " has no device";
    return nullptr;
  }
  return list[0];
}

const tenon_dtype* Opened::dtype_record(uint32_t id) const { return registry().dtype(id); }

uint32_t Opened::dtype_id(std::string_view name) const {
  const uint32_t id = registry().dtype_id(name);
  if (id == TENON_DTYPE_NONE) throw std::runtime_error("no dtype is called " + std::string(name));
  return id;
}

const tenon_kernel& Opened::kernel(std::string_view name) const {
  for (const tenon_kernel* record : registry().kernels)
    if (view(record->name) == name) return *record;
  throw std::runtime_error("no kernel is called " + std::string(name));
}

std::string Opened::error() const { return plugin::PluginHost::take_message(); }

}  // namespace tenon::kit
