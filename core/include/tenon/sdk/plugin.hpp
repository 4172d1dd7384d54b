// plugin.hpp: the entry of a plugin. TENON_PLUGIN("name", "version") { registrar.…; }
#pragma once

#include <tenon/sdk/kernel.hpp>

#include <memory>
#include <vector>

namespace tenon::sdk {

// Registers records with the host and keeps them for the library's life.
class Registrar {
 public:
  explicit Registrar(const tenon_registrar* table) : table_(table) {}

  template <typename T, typename... Args>
  void kernel(std::string name, const KernelInfo& info, Args&&... args) {
    auto record = std::make_unique<KernelRecord>(std::move(name), info, std::make_unique<T>(std::forward<Args>(args)...));
    const tenon_kernel* entry = record->table();
    check(table_->kernels(table_->self, &entry, 1));
    kept_kernels().push_back(std::move(record));
  }
  uint32_t dtype(const tenon_dtype* record) {
    uint32_t id = 0;
    check(table_->dtype(table_->self, record, &id));
    return id;
  }
  void format(const tenon_format* record) { check(table_->format(table_->self, record)); }
  void backend(const tenon_backend* record) { check(table_->backend(table_->self, record)); }
  void collective(const tenon_collective* record) { check(table_->collective(table_->self, record)); }
  void architecture(const tenon_architecture* record) { check(table_->architecture(table_->self, record)); }
  void composite(std::string_view name, std::string_view text) {
    check(table_->composite(table_->self, to_str(name), to_str(text)));
  }
  const tenon_registrar& table() const { return *table_; }

 private:
  static std::vector<std::unique_ptr<KernelRecord>>& kept_kernels() {
    static auto& kept = *new std::vector<std::unique_ptr<KernelRecord>>;  // lives as long as the library
    return kept;
  }
  const tenon_registrar* table_;
};

}  // namespace tenon::sdk

#define TENON_PLUGIN(plugin_name, plugin_version)                                                       \
  static void tenon_plugin_register_(tenon::sdk::Registrar& registrar);                                 \
  static tenon_status tenon_plugin_init_(const tenon_host* host, const tenon_registrar* table) noexcept { \
    tenon::sdk::host_slot() = host;                                                                     \
    return tenon::sdk::guard([&] {                                                                      \
      tenon::sdk::Registrar registrar(table);                                                           \
      tenon_plugin_register_(registrar);                                                                \
    });                                                                                                 \
  }                                                                                                     \
  extern "C" __attribute__((visibility("default"))) const tenon_plugin* tenon_plugin_entry() {          \
    static const tenon_plugin plugin = {sizeof(tenon_plugin), TENON_ABI_MAJOR, TENON_ABI_MINOR, 0, TENON_MAGIC, \
                                        tenon::sdk::to_str(plugin_name), tenon::sdk::to_str(plugin_version), \
                                        tenon::sdk::to_str("Apache-2.0"), tenon_plugin_init_, nullptr};  \
    return &plugin;                                                                                     \
  }                                                                                                     \
  static void tenon_plugin_register_([[maybe_unused]] tenon::sdk::Registrar& registrar)
