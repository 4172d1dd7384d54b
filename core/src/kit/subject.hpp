// subject.hpp: the plugin under test: where it lies, what its manifest says, and how it is opened in a child.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/manifest.hpp"
#include "plugin/plugin_host.hpp"
#include "records.hpp"
#include "session.hpp"

namespace tenon::kit {

struct Subject {
  std::string manifest_path, directory, library;  // absolute
  std::string manifest_fault;                     // "" when the manifest can be read
  plugin::Manifest manifest;
};

// Finds the manifest of a library, or the library of a manifest. Throws Error(kUsage) when there is none.
Subject find_subject(const std::string& path);

// The plugin opened as the engine opens it, with the others that it needs. Made in a child.
class Opened final : public Records {
 public:
  // Opens the plugin, the reference backend and, for kernels, their backends, formats and other kernels. `fault()` says
  // why the plugin is not in use. Makes itself the harness's records.
  Opened(const Subject& subject, const KitOptions& options);

  const std::string& fault() const { return fault_; }
  plugin::PluginHost& host() { return *host_; }
  const plugin::Registry& contents() const;  // what the plugin under test registered
  const plugin::Registry& registry() const { return host_->registry(); }
  const tenon_backend* backend(std::string_view name) const;  // null when no plugin on the path has it
  // First device of a backend; null, with the reason in `why`, when there is none.
  const tenon_device* device(const tenon_backend& backend, std::string* why) const;

  const tenon_dtype* dtype_record(uint32_t id) const override;
  uint32_t dtype_id(std::string_view name) const override;
  const tenon_kernel& kernel(std::string_view name) const override;
  std::string error() const override;

 private:
  std::unique_ptr<plugin::PluginHost> host_;
  size_t index_ = 0;
  std::string fault_;
};

inline std::string_view view(tenon_str text) { return {text.data ? text.data : "", text.data ? size_t(text.size) : 0}; }
inline std::string text_of(tenon_str text) { return std::string(view(text)); }
inline tenon_str str(std::string_view text) { return {text.data(), text.size()}; }

// The groups of checks. Those for a kind of record do nothing where the plugin registers none.
Group library_checks(const Subject& subject);
std::vector<Group> init_checks(const Subject& subject);
Group opening_checks(const Subject& subject);
Group dtype_checks(const Subject& subject);
Group kernel_checks(const Subject& subject);
Group format_checks(const Subject& subject);
Group architecture_checks(const Subject& subject);
Group backend_checks(const Subject& subject);

}  // namespace tenon::kit
