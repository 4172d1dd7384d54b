// plugin_host.hpp: finds plugins by their manifests, checks them, and opens a library when something it provides is needed.
#pragma once

#include "registry.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::plugin {

// One manifest found on the search path.
struct PluginRecord {
  std::string manifest_path, library_path, name, version, kind;
  std::vector<std::string> architectures, format_magics, format_extensions, formats, backends, kernel_backends, kernel_dtypes;
  int32_t priority = 0;
  bool opened = false;
  std::string refusal;  // why it is not used; empty = usable
};

struct PluginHostOptions {
  std::vector<std::string> plugin_path;
  bool use_default_path = true;
};

// Thread-safe. Libraries stay open until the process ends.
class PluginHost {
 public:
  explicit PluginHost(PluginHostOptions options);  // reads manifests, opens nothing
  ~PluginHost();

  const std::vector<PluginRecord>& plugins() const;

  // Open what could serve; answer how many libraries now serve it. A library that fails gets a refusal and is passed over.
  size_t open_formats(std::span<const uint8_t> head, std::string_view file_name);
  size_t open_architectures(std::span<const std::string> ids);  // ids that a file's metadata names; empty = all
  size_t open_backend(std::string_view name);                   // "" = all
  size_t open_kernels(std::string_view backend);                // families for that backend

  // Checks every manifest and hash and opens every usable library (`plugins verify`).
  void verify_all();

  const Registry& registry() const;
  const tenon_host* host_table() const;
  uint32_t n_opened_libraries() const;

  // This thread's message slot, emptied.
  static std::string take_message();
  // "name: reason" of every plugin that was refused, for messages that say what is missing.
  std::string refusals() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws Error with the slot's message when status is not OK. `what` begins the message.
void check_status(tenon_status status, std::string_view what);

}  // namespace tenon::plugin
