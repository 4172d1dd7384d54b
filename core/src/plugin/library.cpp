#define BOOST_DLL_USE_STD_FS
#include "library.hpp"

#include <fcntl.h>
#include <tenon/abi.h>
#include <unistd.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tenon/error.hpp>
#include <vector>

#include "elf_check.hpp"
#include "file_trust.hpp"
#include "host_table.hpp"
#include "message.hpp"
#include "registrar.hpp"
#include "sha256.hpp"

namespace tenon::plugin {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string hash_of(int fd) {
  Sha256 sha;
  std::vector<char> buffer(size_t(1) << 18);
  for (off_t offset = 0;;) {
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), offset);
    if (got < 0) return std::string("unreadable: ") + std::strerror(errno);
    if (got == 0) return sha.hex();
    sha.update(buffer.data(), size_t(got));
    offset += got;
  }
}

bool lies_in(const fs::path& file, const fs::path& directory) {
  const auto [end, unused] = std::mismatch(directory.begin(), directory.end(), file.begin(), file.end());
  return end == directory.end();
}

std::string version_text(uint32_t major, uint32_t minor) { return std::to_string(major) + "." + std::to_string(minor); }

// The calls into a plugin, through types without noexcept: the compiler must not assume that nothing is thrown here.
using EntryFn = const tenon_plugin* (*)();
using InitFn = tenon_status (*)(const tenon_host*, const tenon_registrar*);

// Runs `call`; answers what it threw, or "".
template <typename Call>
std::string thrown_by(Call&& call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    return std::string("threw an exception: ") + error.what();
  } catch (...) {
    return "threw an exception";
  }
}

std::string table_fault(const tenon_plugin* plugin, const Manifest& manifest) {
  if (plugin == nullptr) return TENON_PLUGIN_ENTRY "() answered null";
  // The members up to the magic have the same place in every version.
  if (plugin->struct_size < offsetof(tenon_plugin, name) || plugin->magic != TENON_MAGIC)
    return TENON_PLUGIN_ENTRY "() answered a table without Tenon's magic number";
  if (plugin->abi_major != TENON_ABI_MAJOR || plugin->abi_minor != TENON_ABI_MINOR)
    return "built for plugin interface " + version_text(plugin->abi_major, plugin->abi_minor) + ", this program has " +
           version_text(TENON_ABI_MAJOR, TENON_ABI_MINOR);
  if (plugin->struct_size < sizeof(tenon_plugin))
    return "its table has " + std::to_string(plugin->struct_size) + " bytes, expected " +
           std::to_string(sizeof(tenon_plugin));
  const auto text = [](tenon_str s) { return std::string(s.data ? s.data : "", s.data ? size_t(s.size) : 0); };
  if (text(plugin->name) != manifest.name)
    return "the manifest says the name is " + manifest.name + ", the library says " + text(plugin->name);
  if (text(plugin->version) != manifest.version)
    return "the manifest says the version is " + manifest.version + ", the library says " + text(plugin->version);
  if (plugin->init == nullptr) return "its table has no init()";
  return "";
}

// A manifest must not promise what the library did not register. An architecture's record may serve several ids, so
// only their presence is looked at.
std::string promise_fault(const Manifest& manifest, const Registry& contents) {
  const auto missing = [](const std::vector<std::string>& names, const auto& records) {
    for (const std::string& name : names)
      if (std::none_of(records.begin(), records.end(), [&](const auto* record) {
            return std::string_view(record->name.data, record->name.size) == name;
          }))
        return name;
    return std::string();
  };
  std::string name = missing(manifest.formats, contents.formats);
  if (!name.empty()) return "the manifest promises format " + name + ", the library registered none of that name";
  name = missing(manifest.backends, contents.backends);
  if (!name.empty()) return "the manifest promises backend " + name + ", the library registered none of that name";
  name = missing(manifest.collectives, contents.collectives);
  if (!name.empty()) return "the manifest promises collective " + name + ", the library registered none of that name";
  name = missing(manifest.dtypes, contents.registered_dtypes);
  if (!name.empty()) return "the manifest promises dtype " + name + ", the library registered none of that name";
  if (!manifest.architectures.empty() && contents.architectures.empty())
    return "the manifest promises architectures, the library registered none";
  for (const KernelFamily& family : manifest.kernels)
    if (std::none_of(contents.kernels.begin(), contents.kernels.end(), [&](const tenon_kernel* kernel) {
          return std::string_view(kernel->backend.data, kernel->backend.size) == family.backend;
        }))
      return "the manifest promises kernels for backend " + family.backend + ", the library registered none";
  return "";
}

struct OpenLibrary {
  boost::dll::shared_library handle;
  std::unique_ptr<Registrar> registrar;  // kept, since the plugin may keep its table
  const tenon_plugin* plugin = nullptr;  // set when it is in use
  Library result;
};

// All that this process has opened, by the identity of the file. Never destroyed: see the head of library.hpp.
struct Process {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, OpenLibrary> libraries;
  std::vector<void (*)()> shutdowns;
};
Process& process() {
  static Process& instance = *std::make_unique<Process>().release();
  return instance;
}

// Registered once for each library, after the library's own static objects, so it runs before they are destroyed.
void shut_down_last() {
  std::vector<void (*)()>& pending = process().shutdowns;
  if (pending.empty()) return;
  void (*const shutdown)() = pending.back();
  pending.pop_back();
  thrown_by([&] { shutdown(); });
}

std::string initialise(const tenon_plugin* plugin, const Manifest& manifest, Registrar& registrar, Registry& contents) {
  const PendingScope scope(&registrar.staged());
  tenon_status status = TENON_INTERNAL;
  take_message();
  const InitFn init = plugin->init;
  std::string fault = thrown_by([&] { status = init(host_table(), registrar.table()); });
  registrar.close();
  const std::string message = take_message();
  if (!fault.empty()) return "init() " + fault;
  if (status != TENON_OK)
    return std::string("init() failed: ") + status_name(status) + (message.empty() ? "" : ": " + message);
  fault = promise_fault(manifest, registrar.staged());
  if (fault.empty()) {
    append_dtypes(registrar.staged());
    contents = registrar.staged();
  }
  return fault;
}

// While a library is opened. One that calls exit() would end the program without a word, and with success, so that
// nobody learns which plugin to take away (H10).
class OpeningScope {
 public:
  explicit OpeningScope(const std::string& path) {
    static const bool registered = std::atexit(complain) == 0;
    static_cast<void>(registered);
    path_ = path.c_str(), process_ = getpid();
  }
  ~OpeningScope() { path_ = nullptr; }
  OpeningScope(const OpeningScope&) = delete;
  OpeningScope& operator=(const OpeningScope&) = delete;

 private:
  static void complain() {
    if (path_ == nullptr || process_ != getpid()) return;
    std::fprintf(stderr, "error: plugin %s ended the program while it was opened; remove it or its manifest\n", path_);
    std::_Exit(Error(ErrorKind::kFile, "").exit_status());
  }
  inline static const char* path_ = nullptr;  // libraries are opened one at a time
  inline static pid_t process_ = 0;
};

std::string open_now(OpenLibrary& library, const std::string& path, const Manifest& manifest, const Registry& known) {
  const OpeningScope scope(path);
  try {
    namespace dll = boost::dll;
    library.handle.load(fs::path(path), dll::load_mode::rtld_now | dll::load_mode::rtld_local);
    library.result.opened = true;
    if (!library.handle.has(TENON_PLUGIN_ENTRY)) return "exports no " TENON_PLUGIN_ENTRY "()";
    const EntryFn entry = &library.handle.get<const tenon_plugin*()>(TENON_PLUGIN_ENTRY);
    const tenon_plugin* plugin = nullptr;
    std::string fault = thrown_by([&] { plugin = entry(); });
    if (!fault.empty()) return TENON_PLUGIN_ENTRY "() " + fault;
    fault = table_fault(plugin, manifest);
    if (!fault.empty()) return fault;
    library.registrar = std::make_unique<Registrar>(known);
    fault = initialise(plugin, manifest, *library.registrar, library.result.contents);
    if (!fault.empty()) return fault;
    library.plugin = plugin;
    library.result.licence.assign(plugin->licence.data ? plugin->licence.data : "", size_t(plugin->licence.size));
    if (plugin->shutdown != nullptr) {
      process().shutdowns.push_back(plugin->shutdown);
      std::atexit(shut_down_last);
    }
    return "";
  } catch (const std::exception& error) {
    return std::string("the system cannot open it: ") + error.what();
  }
}

}  // namespace

std::string library_fault(const std::string& directory, const std::string& library, const std::string& sha256) {
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) return directory + ": " + error.message();
  const fs::path path = fs::canonical(root / library, error);
  if (error) return (root / library).string() + ": " + error.message();
  if (!lies_in(path, root))
    return (root / library).string() + ": leads to " + path.string() + ", outside of " + root.string();
  for (fs::path above = path.parent_path();; above = above.parent_path()) {
    if (std::string fault = trust_fault(above.string()); !fault.empty()) return fault;
    if (above == root || above == above.root_path()) break;
  }

  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return path.string() + ": " + std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return path.string() + ": not a regular file";
  if (std::string fault = trust_fault(path.string(), status); !fault.empty()) return fault;
  const std::string found = hash_of(file.get());
  if (found != sha256)
    return path.string() + ": its sha256 is " + found + ", the manifest says " + sha256 +
           "; install the library and its manifest together";
  const std::string fault = elf_fault(file.get(), uint64_t(status.st_size));
  return fault.empty() ? "" : path.string() + ": " + fault;
}

Library open_library(const std::string& path, const Manifest& manifest, const Registry& known) {
  const std::lock_guard lock(process().mutex);
  struct stat status {};
  Library result;
  if (stat(path.c_str(), &status) != 0) {
    result.fault = path + ": " + std::strerror(errno);
    return result;
  }
  const auto [entry, fresh] = process().libraries.try_emplace({status.st_dev, status.st_ino});
  OpenLibrary& library = entry->second;
  if (fresh) library.result.fault = open_now(library, path, manifest, known);
  result = library.result;
  if (!fresh && result.fault.empty()) {
    // Another host of this process opened it, perhaps by another manifest.
    result.fault = table_fault(library.plugin, manifest);
    if (result.fault.empty()) result.fault = promise_fault(manifest, result.contents);
    if (result.fault.empty()) result.fault = name_conflict(known, result.contents);
    if (!result.fault.empty()) result.contents = {};
  }
  // An open library keeps its file's number from being given to another file; one that is not open does not.
  if (!result.opened) process().libraries.erase(entry);
  if (!result.fault.empty()) result.fault = path + ": " + result.fault;
  return result;
}

}  // namespace tenon::plugin
