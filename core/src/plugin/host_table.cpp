#include "host_table.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core_dtypes.hpp"
#include "host_files.hpp"
#include "log.hpp"
#include "message.hpp"
#include "parallel.hpp"

namespace tenon::plugin {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }
tenon_str str(std::string_view text) { return {text.data(), text.size()}; }

// Read without a lock by any thread; grows under the opening code's lock.
struct DtypeTable {
  std::array<std::atomic<const tenon_dtype*>, kMaxDtypes> records{};
  std::atomic<size_t> n = 0;
};
DtypeTable& dtypes() {
  static DtypeTable table;
  return table;
}
thread_local const Registry* pending = nullptr;
thread_local const OpenDtype* open_dtype = nullptr;

// Values are never removed: plugins may hold on to a string.
struct Config {
  std::mutex mutex;
  std::map<std::string, tenon_value, std::less<>> values;
  std::deque<std::string> strings;
};
Config& config() {
  static Config& instance = *std::make_unique<Config>().release();  // plugins may ask while the process ends
  return instance;
}

// Every function below is called by plugins; none may throw.
void host_log(void*, uint32_t level, tenon_str text) noexcept { log(level, view(text)); }

tenon_status host_fail(void*, tenon_status status, tenon_str text) noexcept { return set_message(status, view(text)); }

void* host_scratch(void*, uint64_t bytes, uint64_t align) noexcept {
  if (align < sizeof(void*)) align = sizeof(void*);
  if (!std::has_single_bit(align)) return nullptr;
  void* memory = nullptr;
  return posix_memalign(&memory, align, bytes == 0 ? align : bytes) == 0 ? memory : nullptr;
}

void host_release(void*, void* memory) noexcept { std::free(memory); }

tenon_status host_config(void*, tenon_str key, tenon_value* out) noexcept {
  try {
    const std::lock_guard lock(config().mutex);
    const auto found = config().values.find(view(key));
    if (found == config().values.end()) return set_message(TENON_NOT_FOUND, "no configuration value of that name");
    *out = found->second;
    return TENON_OK;
  } catch (...) {
    return set_message(TENON_INTERNAL, "the configuration could not be read");
  }
}

tenon_status host_parallel(void*, int64_t n, void (*body)(void*, int64_t), void* arg) noexcept {
  return run_parallel(n, body, arg);
}

tenon_status host_file_size(void*, const tenon_file* file, uint64_t* bytes) noexcept {
  *bytes = file->size();
  return TENON_OK;
}

tenon_status host_file_name(void*, const tenon_file* file, tenon_str* name) noexcept {
  *name = str(file->base_name());
  return TENON_OK;
}

tenon_status range_failure(const tenon_file* file, const char* what, uint64_t offset, uint64_t bytes) noexcept {
  try {
    return set_message(TENON_IO, std::string(file->base_name()) + ": cannot " + what + " " + std::to_string(bytes) +
                                     " bytes at offset " + std::to_string(offset) + "; the file has " +
                                     std::to_string(file->size()));
  } catch (...) {
    return set_message(TENON_IO, "a file could not be read");
  }
}

tenon_status host_file_read(void*, const tenon_file* file, uint64_t offset, void* dst, uint64_t bytes) noexcept {
  try {
    if (file->read(offset, dst, bytes)) return TENON_OK;
  } catch (...) {
  }
  return range_failure(file, "read", offset, bytes);
}

tenon_status host_file_map(void*, const tenon_file* file, uint64_t offset, uint64_t bytes, const void** data) noexcept {
  try {
    if (const void* range = file->map(offset, bytes)) {
      *data = range;
      return TENON_OK;
    }
  } catch (...) {
  }
  return range_failure(file, "map", offset, bytes);
}

tenon_status host_file_advise(void*, const tenon_file* file, uint64_t offset, uint64_t bytes,
                              uint32_t advice) noexcept {
  try {
    file->advise(offset, bytes, advice);
  } catch (...) {
    // Advice only.
  }
  return TENON_OK;
}

tenon_status absent(const char* what) noexcept { return set_message(TENON_NOT_FOUND, what); }

tenon_status host_meta_find(void*, const tenon_meta* meta, tenon_str key, tenon_value* out) noexcept {
  try {
    const tenon_value* value = meta->find(view(key));
    if (value == nullptr) return absent("no metadata of that key");
    *out = *value;
    return TENON_OK;
  } catch (...) {
    return set_message(TENON_INTERNAL, "the metadata could not be read");
  }
}

tenon_status host_meta_at(void*, const tenon_meta* meta, uint64_t i, tenon_str* key, tenon_value* out) noexcept {
  try {
    if (i >= meta->size()) return absent("past the end of the metadata");
    *key = str(meta->key_at(size_t(i)));
    *out = meta->value_at(size_t(i));
    return TENON_OK;
  } catch (...) {
    return set_message(TENON_INTERNAL, "the metadata could not be read");
  }
}

tenon_status host_meta_tensor(void*, const tenon_meta* meta, tenon_str name, tenon_tensor* out) noexcept {
  try {
    return meta->tensor(view(name), out) ? TENON_OK : absent("no tensor of that name");
  } catch (...) {
    return set_message(TENON_INTERNAL, "the tensor list could not be read");
  }
}

tenon_status host_meta_tensor_at(void*, const tenon_meta* meta, uint64_t i, tenon_tensor* out) noexcept {
  try {
    return meta->tensor_at(i, out) ? TENON_OK : absent("past the end of the tensor list");
  } catch (...) {
    return set_message(TENON_INTERNAL, "the tensor list could not be read");
  }
}

tenon_status host_meta_scheme(void*, const tenon_meta* meta, tenon_str* scheme) noexcept {
  try {
    *scheme = str(meta->scheme());
    return TENON_OK;
  } catch (...) {
    return set_message(TENON_INTERNAL, "the naming scheme could not be read");
  }
}

const tenon_dtype* host_dtype(void*, uint32_t id) noexcept {
  if (id < TENON_DTYPE_FIRST_REGISTERED) return core_dtype(id);
  const size_t i = id - TENON_DTYPE_FIRST_REGISTERED, n = n_dtypes();
  if (i < n) return dtype_at(i);
  if (pending != nullptr && i - n < pending->registered_dtypes.size()) return pending->registered_dtypes[i - n];
  return nullptr;
}

// TENON_DTYPE_NONE when nobody has registered it.
uint32_t dtype_id_of(std::string_view name) noexcept {
  if (const uint32_t own = core_dtype_id(name); own != TENON_DTYPE_NONE) return own;
  for (uint32_t i = TENON_DTYPE_FIRST_REGISTERED; const tenon_dtype* record = host_dtype(nullptr, i); ++i)
    if (view(record->name) == name) return i;
  return TENON_DTYPE_NONE;
}

tenon_status host_dtype_id(void*, tenon_str name, uint32_t* id) noexcept {
  try {
    uint32_t found = dtype_id_of(view(name));
    // While a library opens for one dtype its init() asks without opening more.
    if (const OpenDtype* open = std::exchange(open_dtype, nullptr); open != nullptr) {
      if (found == TENON_DTYPE_NONE && (*open)(view(name))) found = dtype_id_of(view(name));
      open_dtype = open;
    }
    if (found == TENON_DTYPE_NONE) return absent("no dtype of that name is registered");
    *id = found;
    return TENON_OK;
  } catch (...) {
    return set_message(TENON_INTERNAL, "a plugin that promises the dtype could not be opened");
  }
}

}  // namespace

const tenon_host* host_table() {
  static constexpr tenon_host kTable = {
      .struct_size = sizeof(tenon_host),
      .abi_major = TENON_ABI_MAJOR,
      .abi_minor = TENON_ABI_MINOR,
      .reserved = 0,
      .self = nullptr,
      .log = host_log,
      .fail = host_fail,
      .scratch = host_scratch,
      .release = host_release,
      .config = host_config,
      .parallel = host_parallel,
      .file_size = host_file_size,
      .file_name = host_file_name,
      .file_read = host_file_read,
      .file_map = host_file_map,
      .file_advise = host_file_advise,
      .meta_find = host_meta_find,
      .meta_at = host_meta_at,
      .meta_tensor = host_meta_tensor,
      .meta_tensor_at = host_meta_tensor_at,
      .meta_scheme = host_meta_scheme,
      .dtype_id = host_dtype_id,
      .dtype = host_dtype,
  };
  return &kTable;
}

void set_config(std::string_view key, const ConfigValue& value) {
  Config& known = config();
  const std::lock_guard lock(known.mutex);
  tenon_value entry{};
  entry.struct_size = sizeof entry;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    entry.type = TENON_VALUE_I64, entry.integer = *integer;
  } else if (const double* real = std::get_if<double>(&value)) {
    entry.type = TENON_VALUE_F64, entry.real = *real;
  } else {
    known.strings.emplace_back(std::get<std::string_view>(value));
    entry.type = TENON_VALUE_STRING, entry.string = str(known.strings.back());
  }
  known.values.insert_or_assign(std::string(key), entry);
}

size_t n_dtypes() { return dtypes().n.load(std::memory_order_acquire); }

const tenon_dtype* dtype_at(size_t i) {
  return i < n_dtypes() ? dtypes().records[i].load(std::memory_order_relaxed) : nullptr;
}

void append_dtypes(const Registry& staged) {
  DtypeTable& table = dtypes();
  size_t n = table.n.load(std::memory_order_relaxed);
  for (const tenon_dtype* record : staged.registered_dtypes)
    if (n < kMaxDtypes) table.records[n++].store(record, std::memory_order_relaxed);
  table.n.store(n, std::memory_order_release);
}

PendingScope::PendingScope(const Registry* staged) { pending = staged; }
PendingScope::~PendingScope() { pending = nullptr; }

DtypeScope::DtypeScope(const OpenDtype& open) { open_dtype = &open; }
DtypeScope::~DtypeScope() { open_dtype = nullptr; }

}  // namespace tenon::plugin
