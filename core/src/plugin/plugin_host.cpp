#include "plugin_host.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <tenon/error.hpp>

#include "file_trust.hpp"
#include "host_table.hpp"
#include "library.hpp"
#include "log.hpp"
#include "manifest.hpp"
#include "manifest/manifest_size.hpp"
#include "registrar.hpp"

namespace tenon::plugin {
namespace {

namespace fs = std::filesystem;

// The bytes of a manifest that may be trusted; throws Error(kFile).
std::string read_manifest(const std::string& path) {
  const auto fail = [&](const std::string& what) -> void { throw Error(ErrorKind::kFile, path + ": " + what); };
  // A link could lead out of the directory that was checked.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) fail(errno == ELOOP ? "a link; expected a file" : std::strerror(errno));
  std::string text, fault;
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    fault = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    fault = "not a regular file";
  } else if (uint64_t(status.st_size) > manifest::kMaxManifestBytes) {
    fault = std::to_string(status.st_size) + " bytes; a manifest has at most " + std::to_string(manifest::kMaxManifestBytes);
  } else {
    text.resize(manifest::kMaxManifestBytes + 1);
    size_t n = 0;
    ssize_t got = 0;
    while (n < text.size() && (got = ::read(fd, text.data() + n, text.size() - n)) > 0) n += size_t(got);
    if (got < 0) fault = std::strerror(errno);
    text.resize(n);
  }
  close(fd);
  if (!fault.empty()) fail(fault);
  if (const std::string distrust = trust_fault(path, status); !distrust.empty())
    throw Error(ErrorKind::kFile, distrust);
  return text;
}

struct Entry {
  Manifest manifest;
  std::string directory;
  Registry contents;
};

void fill(PluginRecord& record, const Manifest& m, const std::string& directory) {
  record.library_path = (fs::path(directory) / m.library).string();
  record.name = m.name, record.version = m.version, record.kind = m.kind, record.priority = m.priority;
  record.architectures = m.architectures, record.formats = m.formats, record.backends = m.backends;
  record.format_magics = m.format_magics, record.format_extensions = m.format_extensions;
  record.collectives = m.collectives, record.dtypes = m.dtypes;
  const auto add = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& text : from)
      if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
  };
  for (const KernelFamily& family : m.kernels) {
    add(record.kernel_backends, {family.backend});
    add(record.kernel_dtypes, family.dtypes);
    add(record.kernel_ops, family.ops);
    add(record.kernel_features, family.features);
  }
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

struct PluginHost::Impl {
  std::vector<SearchDirectory> directories;
  std::vector<PluginRecord> records;
  std::vector<Entry> entries;  // of the same index
  Registry registry;
  uint32_t n_opened = 0;
  mutable std::recursive_mutex mutex;

  void scan(const std::string& directory);
  void read(PluginRecord& record, Entry& entry);
  bool open(size_t i);
  std::vector<size_t> by_rank() const;
  template <typename Wanted>
  size_t open_where(Wanted&& wanted);
};

void PluginHost::Impl::scan(const std::string& directory) {
  const std::string distrust = trust_fault(directory);
  for (const std::string& path : manifests_in(directory)) {
    PluginRecord record;
    Entry entry;
    record.manifest_path = path;
    entry.directory = directory;
    record.name = fs::path(path).filename().string();
    record.name.resize(record.name.size() - kManifestSuffix.size());  // until the manifest says better
    record.refusal = distrust;
    if (distrust.empty()) read(record, entry);
    if (!record.refusal.empty()) log(TENON_LOG_WARNING, "plugin " + record.name + " is not used: " + record.refusal);
    records.push_back(std::move(record));
    entries.push_back(std::move(entry));
  }
}

// Fills the record; what is wrong becomes its refusal. Looks at the manifest alone.
void PluginHost::Impl::read(PluginRecord& record, Entry& entry) {
  try {
    entry.manifest = parse_manifest(record.manifest_path, read_manifest(record.manifest_path));
  } catch (const Error& error) {
    record.refusal = error.what();
    return;
  }
  const Manifest& manifest = entry.manifest;
  fill(record, manifest, entry.directory);
  if (manifest.abi_major != TENON_ABI_MAJOR || manifest.abi_minor != TENON_ABI_MINOR) {
    record.refusal = record.manifest_path + ": built for plugin interface " + std::to_string(manifest.abi_major) + "." +
                     std::to_string(manifest.abi_minor) + ", this program has " + std::to_string(TENON_ABI_MAJOR) +
                     "." + std::to_string(TENON_ABI_MINOR);
    return;
  }
  for (const PluginRecord& other : records)
    if (other.refusal.empty() && other.name == record.name) {
      record.refusal = record.manifest_path + ": the name " + record.name + " is taken by " + other.manifest_path +
                       ", which comes first on the search path";
      return;
    }
}

bool PluginHost::Impl::open(size_t i) {
  PluginRecord& record = records[i];
  if (record.opened || !record.refusal.empty()) return record.opened;
  Entry& entry = entries[i];
  record.refusal = library_fault(entry.directory, entry.manifest.library, entry.manifest.sha256);
  if (record.refusal.empty()) {
    log(TENON_LOG_DEBUG, "opening plugin " + record.name + " from " + record.library_path);
    Library library = open_library(fs::canonical(record.library_path).string(), entry.manifest, registry);
    n_opened += library.opened;
    record.refusal = library.fault;
    if (library.fault.empty()) {
      record.licence = library.licence;
      merge(registry, library.contents);
      // Ids are the process's: take over whatever other hosts have opened, too.
      for (size_t k = registry.registered_dtypes.size(); const tenon_dtype* dtype = dtype_at(k); ++k)
        registry.registered_dtypes.push_back(dtype);
      entry.contents = std::move(library.contents);
    }
  }
  record.opened = record.refusal.empty();
  if (record.opened)
    log(TENON_LOG_DEBUG, "opened plugin " + record.name + " " + record.version + " from " + record.library_path);
  else
    log(TENON_LOG_WARNING, "plugin " + record.name + " is not used: " + record.refusal);
  return record.opened;
}

// Higher priority first, then the order of the search.
std::vector<size_t> PluginHost::Impl::by_rank() const {
  std::vector<size_t> order(records.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return records[a].priority > records[b].priority; });
  return order;
}

template <typename Wanted>
size_t PluginHost::Impl::open_where(Wanted&& wanted) {
  const std::lock_guard lock(mutex);
  size_t n = 0;
  for (const size_t i : by_rank()) n += wanted(records[i]) && open(i);
  return n;
}

PluginHost::PluginHost(PluginHostOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->directories = search_directories(options.plugin_path, options.use_default_path);
  for (const SearchDirectory& directory : impl_->directories) impl_->scan(directory.path);
}
PluginHost::~PluginHost() = default;

const std::vector<PluginRecord>& PluginHost::plugins() const { return impl_->records; }
const std::vector<SearchDirectory>& PluginHost::search_path() const { return impl_->directories; }

size_t PluginHost::open_formats(std::span<const uint8_t> head, std::string_view file_name) {
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  return impl_->open_where([&](const PluginRecord& record) {
    const auto begins = [&](const std::string& magic) { return bytes.starts_with(magic); };
    const auto ends = [&](const std::string& extension) { return file_name.ends_with(extension); };
    return std::any_of(record.format_magics.begin(), record.format_magics.end(), begins) ||
           std::any_of(record.format_extensions.begin(), record.format_extensions.end(), ends);
  });
}

size_t PluginHost::open_architectures(std::span<const std::string> ids) {
  return impl_->open_where([&](const PluginRecord& record) {
    if (ids.empty()) return !record.architectures.empty();
    return std::any_of(ids.begin(), ids.end(),
                       [&](const std::string& id) { return contains(record.architectures, id); });
  });
}

size_t PluginHost::open_backend(std::string_view name) {
  return impl_->open_where([&](const PluginRecord& record) {
    return name.empty() ? !record.backends.empty() : contains(record.backends, name);
  });
}

size_t PluginHost::open_kernels(std::string_view backend) {
  return impl_->open_where([&](const PluginRecord& record) { return contains(record.kernel_backends, backend); });
}

size_t PluginHost::open_collective(std::string_view name) {
  return impl_->open_where([&](const PluginRecord& record) { return contains(record.collectives, name); });
}

size_t PluginHost::open_dtype(std::string_view name) {
  return impl_->open_where([&](const PluginRecord& record) { return contains(record.dtypes, name); });
}

void PluginHost::verify_all() {
  impl_->open_where([](const PluginRecord&) { return true; });
}

bool PluginHost::open(size_t i) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->open(i);
}

const Registry& PluginHost::contents(size_t i) const { return impl_->entries.at(i).contents; }
std::vector<PluginHost::Architecture> PluginHost::architectures() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Architecture> out;
  for (const size_t i : impl_->by_rank())
    for (const tenon_architecture* record : impl_->entries[i].contents.architectures)
      out.push_back({record, impl_->records[i].name + " " + impl_->records[i].version});
  return out;
}

const Registry& PluginHost::registry() const { return impl_->registry; }
const tenon_host* PluginHost::host_table() const { return plugin::host_table(); }

uint32_t PluginHost::n_opened_libraries() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->n_opened;
}

std::string PluginHost::take_message() { return plugin::take_message(); }

std::string PluginHost::refusals() const {
  const std::lock_guard lock(impl_->mutex);
  std::string text;
  for (const PluginRecord& record : impl_->records)
    if (!record.refusal.empty()) text += (text.empty() ? "" : "\n") + record.name + ": " + record.refusal;
  return text;
}

std::vector<std::string> PluginHost::installed(std::vector<std::string> PluginRecord::*names) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<std::string> out;
  for (const PluginRecord& record : impl_->records)
    if (record.refusal.empty()) out.insert(out.end(), (record.*names).begin(), (record.*names).end());
  return out;
}

void check_status(tenon_status status, std::string_view what) {
  if (status == TENON_OK) return;
  const std::string message = take_message();
  ErrorKind kind = ErrorKind::kRuntime;
  switch (status) {
    case TENON_UNSUPPORTED:
    case TENON_NOT_FOUND:
    case TENON_IO:
    case TENON_CORRUPT:
    case TENON_INCOMPATIBLE:
      kind = ErrorKind::kFile;
      break;
    case TENON_OUT_OF_MEMORY:
    case TENON_CAPACITY:
      kind = ErrorKind::kCapacity;
      break;
    case TENON_CANCELLED:
      kind = ErrorKind::kInterrupted;
      break;
    default:
      break;
  }
  throw Error(kind, std::string(what) + ": " + (message.empty() ? status_name(status) : message));
}

}  // namespace tenon::plugin
