// plugin_host.hpp: finds plugins by their manifests, checks them, and opens a library when something it provides is
// needed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "message.hpp"
#include "registry.hpp"
#include "search_path.hpp"

namespace tenon::plugin {

// One manifest found on the search path.
struct PluginRecord {
  std::string manifest_path, library_path, name, version, kind;
  std::vector<std::string> architectures, format_magics, format_extensions, formats, backends, kernel_backends,
      kernel_dtypes;
  std::vector<std::string> kernel_ops, kernel_features, collectives, dtypes;
  std::string licence;  // as the library says; empty until it was opened
  int32_t priority = 0;
  bool opened = false;
  std::string refusal;  // why it is not used; empty = nothing is known against it
};

struct PluginHostOptions {
  std::vector<std::string> plugin_path;
  bool use_default_path = true;
};

// Any thread may open, and any number at once. What plugins() and registry() answer grows while something opens, so
// they are read by the thread that opened, or when nothing opens. Libraries stay open until the process ends; a second
// host in one process shares those that the first has opened, and the ids of their dtypes.
class PluginHost {
 public:
  explicit PluginHost(PluginHostOptions options);  // reads manifests, opens nothing
  ~PluginHost();

  const std::vector<PluginRecord>& plugins() const;  // in the order of the search
  const std::vector<SearchDirectory>& search_path() const;

  // Open what could serve; answer how many libraries now serve it. A library that fails gets a refusal and is passed
  // over.
  size_t open_formats(std::span<const uint8_t> head, std::string_view file_name);
  size_t open_architectures(std::span<const std::string> ids);  // ids that a file's metadata names; empty = all
  size_t open_backend(std::string_view name);                   // "" = all
  size_t open_kernels(std::string_view backend);                // families for that backend
  size_t open_collective(std::string_view name);
  size_t open_dtype(std::string_view name);                     // those that promise to register that dtype

  // Checks every manifest and hash and opens every library that is not refused (`plugins verify`).
  void verify_all();
  // Opens plugin i of plugins(); false when it is or becomes refused.
  bool open(size_t i);
  const Registry& contents(size_t i) const;  // what plugin i registered; empty until it was opened

  // Of the opened plugins: higher priority first, then the order of the search.
  struct Architecture {
    const tenon_architecture* record;
    std::string plugin;  // its name and version
  };
  std::vector<Architecture> architectures() const;

  const Registry& registry() const;
  const tenon_host* host_table() const;
  uint32_t n_opened_libraries() const;  // by this host, those that were refused after opening included

  // This thread's message slot, emptied.
  static std::string take_message();
  // "name: reason" of every plugin that was refused, for messages that say what is missing.
  std::string refusals() const;
  // What the manifests of plugins that are not refused promise, such as all of &PluginRecord::backends, in their order.
  std::vector<std::string> installed(std::vector<std::string> PluginRecord::*names) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws Error with the slot's message when status is not OK. `what` begins the message.
void check_status(tenon_status status, std::string_view what);

}  // namespace tenon::plugin
