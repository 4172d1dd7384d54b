#include "op_harness_kit.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace tenon::testing {
namespace {

std::string& error_slot() {
  thread_local std::string slot;
  return slot;
}
std::string to_string(tenon_str text) { return {text.data, size_t(text.size)}; }

}  // namespace

// The C callbacks of the fake host and its registrar.
struct KitCalls {
  static Kit& kit(void* self) { return *static_cast<Kit*>(self); }
  static void log(void*, uint32_t level, tenon_str text) noexcept {
    if (level >= TENON_LOG_WARNING) std::fprintf(stderr, "plugin: %.*s\n", int(text.size), text.data);
  }
  static tenon_status fail(void*, tenon_status status, tenon_str message) noexcept {
    error_slot() = to_string(message);
    return status;
  }
  static void* scratch(void*, uint64_t bytes, uint64_t align) noexcept {
    const uint64_t step = std::max<uint64_t>(align, 64);
    return std::aligned_alloc(step, (bytes + step - 1) / step * step);
  }
  static void release(void*, void* memory) noexcept { std::free(memory); }
  static tenon_status config(void* self, tenon_str key, tenon_value* value) noexcept {
    const auto found = kit(self).config_.find(to_string(key));
    if (found == kit(self).config_.end()) return TENON_NOT_FOUND;
    *value = {};
    value->struct_size = sizeof *value, value->type = TENON_VALUE_I64, value->integer = found->second;
    return TENON_OK;
  }
  static tenon_status parallel(void*, int64_t n, void (*body)(void*, int64_t), void* arg) noexcept {
    for (int64_t i = 0; i < n; ++i) body(arg, i);
    return TENON_OK;
  }
  static tenon_status dtype_id(void* self, tenon_str name, uint32_t* id) noexcept {
    for (const auto& [key, record] : kit(self).dtypes_)
      if (to_string(record->name) == to_string(name)) return *id = key, TENON_OK;
    return fail(self, TENON_NOT_FOUND, name);
  }
  static const tenon_dtype* dtype(void* self, uint32_t id) noexcept { return kit(self).dtype_record(id); }

  static tenon_status add_dtype(void* self, const tenon_dtype* record, uint32_t* id) noexcept {
    return *id = kit(self).add_dtype(record), TENON_OK;
  }
  static tenon_status add_backend(void* self, const tenon_backend* record) noexcept {
    return kit(self).backends_.push_back(record), TENON_OK;
  }
  static tenon_status add_kernels(void* self, const tenon_kernel* const* records, uint32_t n) noexcept {
    for (uint32_t i = 0; i < n; ++i) {
      for (const tenon_kernel* known : kit(self).kernels_)
        if (to_string(known->name) == to_string(records[i]->name))
          return fail(self, TENON_INVALID_ARGUMENT, records[i]->name);
      kit(self).kernels_.push_back(records[i]);
    }
    return TENON_OK;
  }
  static tenon_status add_format(void*, const tenon_format*) noexcept { return TENON_OK; }
  static tenon_status add_architecture(void*, const tenon_architecture*) noexcept { return TENON_OK; }
  static tenon_status add_composite(void*, tenon_str, tenon_str) noexcept { return TENON_OK; }
  static tenon_status add_collective(void*, const tenon_collective*) noexcept { return TENON_OK; }
};

// Cases may be put together before a plugin is loaded.
[[maybe_unused]] const bool is_given = (Kit::instance(), true);

Kit& Kit::instance() {
  static Kit& kit = *new Kit;  // plugins hold its address until the process ends
  return kit;
}

Kit::Kit() {
  use_records(*this);
  host_.struct_size = sizeof host_, host_.abi_major = TENON_ABI_MAJOR, host_.abi_minor = TENON_ABI_MINOR;
  host_.self = this;
  host_.log = KitCalls::log, host_.fail = KitCalls::fail;
  host_.scratch = KitCalls::scratch, host_.release = KitCalls::release;
  host_.config = KitCalls::config, host_.parallel = KitCalls::parallel;
  host_.dtype_id = KitCalls::dtype_id, host_.dtype = KitCalls::dtype;
  registrar_.struct_size = sizeof registrar_, registrar_.self = this;
  registrar_.dtype = KitCalls::add_dtype, registrar_.backend = KitCalls::add_backend;
  registrar_.kernels = KitCalls::add_kernels, registrar_.format = KitCalls::add_format;
  registrar_.architecture = KitCalls::add_architecture, registrar_.composite = KitCalls::add_composite;
  registrar_.collective = KitCalls::add_collective;
  for (uint32_t i = 0; i < core_dtypes().size(); ++i) dtypes_[i + 1] = core_dtypes()[i];
}

void Kit::load(const std::string& path) {
  if (std::find(loaded_.begin(), loaded_.end(), path) != loaded_.end()) return;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(std::string("cannot open the plugin: ") + dlerror());
  const auto entry = reinterpret_cast<tenon_plugin_entry_fn>(dlsym(library, TENON_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error(path + " has no " + TENON_PLUGIN_ENTRY);
  add(entry());
  loaded_.push_back(path);
}

void Kit::add(const tenon_plugin* plugin) {
  if (std::find(plugins_.begin(), plugins_.end(), plugin) != plugins_.end()) return;
  if (!plugin || plugin->magic != TENON_MAGIC) throw std::runtime_error("the plugin's magic is wrong");
  plugins_.push_back(plugin);
  const tenon_status status = plugin->init(&host_, &registrar_);
  if (status != TENON_OK)
    throw std::runtime_error("init of " + to_string(plugin->name) + " answered " + std::to_string(status) + ": " +
                             error());
}

uint32_t Kit::add_dtype(const tenon_dtype* record) {
  for (const auto& [id, known] : dtypes_)
    if (to_string(known->name) == to_string(record->name)) return id;
  const uint32_t id = std::max<uint32_t>(TENON_DTYPE_FIRST_REGISTERED, dtypes_.rbegin()->first + 1);
  dtypes_[id] = record;
  return id;
}

const tenon_kernel& Kit::kernel(std::string_view name) const {
  for (const tenon_kernel* record : kernels_)
    if (to_string(record->name) == name) return *record;
  throw std::runtime_error("no kernel is called " + std::string(name));
}

std::vector<const tenon_kernel*> Kit::kernels(std::string_view pattern, std::string_view backend) const {
  std::vector<const tenon_kernel*> out;
  for (const tenon_kernel* record : kernels_)
    if (to_string(record->pattern) == pattern && (backend.empty() || to_string(record->backend) == backend))
      out.push_back(record);
  return out;
}

const tenon_backend& Kit::backend(std::string_view name) const {
  for (const tenon_backend* record : backends_)
    if (to_string(record->name) == name) return *record;
  throw std::runtime_error("no backend is called " + std::string(name));
}

const tenon_dtype* Kit::dtype_record(uint32_t id) const {
  const auto found = dtypes_.find(id);
  return found == dtypes_.end() ? nullptr : found->second;
}
bool Kit::has_dtype(std::string_view name) const {
  return std::any_of(dtypes_.begin(), dtypes_.end(), [&](const auto& d) { return to_string(d.second->name) == name; });
}
uint32_t Kit::dtype_id(std::string_view name) const {
  for (const auto& [id, record] : dtypes_)
    if (to_string(record->name) == name) return id;
  throw std::runtime_error("no dtype is called " + std::string(name));
}
std::string Kit::error() const { return error_slot(); }

}  // namespace tenon::testing
