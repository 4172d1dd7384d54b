// A format plugin that reads nothing. Macros break it in one way each.
#include <tenon/abi.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#ifndef FAKE_MAGIC
#define FAKE_MAGIC TENON_MAGIC
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR TENON_ABI_MAJOR
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR TENON_ABI_MINOR
#endif
#ifndef FAKE_SIZE
#define FAKE_SIZE sizeof(tenon_plugin)
#endif
#ifndef FAKE_INIT
#define FAKE_INIT good
#endif
#ifndef FAKE_SAYS_NAME
#define FAKE_SAYS_NAME FAKE_NAME
#endif

namespace {

tenon_str str(std::string_view text) { return {text.data(), text.size()}; }

tenon_status decode(const tenon_weight*, int64_t, int64_t, float*) noexcept { return TENON_UNSUPPORTED; }
tenon_status probe(void*, const uint8_t*, uint64_t, tenon_str, uint32_t*) noexcept { return TENON_OK; }
tenon_status open(void*, tenon_file* const*, uint32_t, void**) noexcept { return TENON_UNSUPPORTED; }
tenon_status more(void*, uint32_t, tenon_str*) noexcept { return TENON_NOT_FOUND; }
tenon_status meta(void*, uint64_t, tenon_str*, tenon_value*) noexcept { return TENON_NOT_FOUND; }
tenon_status tensor(void*, uint64_t, tenon_tensor*) noexcept { return TENON_NOT_FOUND; }
void close(void*) noexcept {}

tenon_format format = {.struct_size = sizeof(tenon_format),
                       .flags = 0,
                       .name = str("fake"),
                       .scheme = str("fake"),
                       .self = nullptr,
                       .probe = probe,
                       .open = open,
                       .more = more,
                       .meta = meta,
                       .tensor = tensor,
                       .close = close,
                       .layout = nullptr};
tenon_dtype dtype = {.struct_size = sizeof(tenon_dtype),
                     .n_plane = 1,
                     .name = {},
                     .block_cols = 32,
                     .block_bytes = 18,
                     .tile_rows = 0,
                     .tile_cols = 0,
                     .plane_bytes = {18, 0, 0, 0},
                     .decode = decode,
                     .encode = nullptr,
                     .check = nullptr};
const tenon_registrar* kept = nullptr;
const tenon_host* kept_host = nullptr;

// Registers the format, and a dtype when the configuration names one; then the dtype must be there by name and id.
[[maybe_unused]] tenon_status good(const tenon_host* host, const tenon_registrar* registrar) {
  tenon_value name{};
  if (host->config(host->self, str("fake.dtype"), &name) == TENON_OK && name.string.size > 0) {
    dtype.name = name.string;
    uint32_t id = 0, found = 0;
    if (const tenon_status status = registrar->dtype(registrar->self, &dtype, &id)) return status;
    if (host->dtype_id(host->self, name.string, &found) != TENON_OK || found != id) return TENON_INTERNAL;
    if (host->dtype(host->self, id) != &dtype) return TENON_INTERNAL;
  }
  return registrar->format(registrar->self, &format);
}
[[maybe_unused]] tenon_status failing(const tenon_host* host, const tenon_registrar* registrar) {
  good(host, registrar);
  return host->fail(host->self, TENON_UNSUPPORTED, str("no such device here"));
}
[[maybe_unused]] tenon_status throwing(const tenon_host* host, const tenon_registrar* registrar) {
  good(host, registrar);
  throw std::runtime_error("out of cheese");
}
[[maybe_unused]] tenon_status exiting(const tenon_host*, const tenon_registrar*) { std::exit(0); }
[[maybe_unused]] tenon_status twice(const tenon_host* host, const tenon_registrar* registrar) {
  good(host, registrar);
  return registrar->format(registrar->self, &format);
}
[[maybe_unused]] tenon_status nothing(const tenon_host*, const tenon_registrar*) { return TENON_OK; }
[[maybe_unused]] tenon_status bad_record(const tenon_host*, const tenon_registrar* registrar) {
  format.probe = nullptr;
  return registrar->format(registrar->self, &format);
}
// Keeps the registrar and uses it after init() has ended, from a function that a test calls.
tenon_status call_late(void*, const uint8_t*, uint64_t, tenon_str, uint32_t*) noexcept {
  static const tenon_format other = [] {
    tenon_format copy = format;
    copy.name = str("late");
    return copy;
  }();
  return kept->format(kept->self, &other);
}
[[maybe_unused]] tenon_status late(const tenon_host* host, const tenon_registrar* registrar) {
  kept = registrar, kept_host = host;
  format.probe = call_late;
  return registrar->format(registrar->self, &format);
}

using Init = tenon_status (*)(const tenon_host*, const tenon_registrar*) noexcept;

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_plugin* tenon_plugin_entry() {
#ifdef FAKE_ENTRY_THROWS
  throw std::runtime_error("no entry today");
#endif
#ifdef FAKE_NULL
  return nullptr;
#endif
  // A plugin that lets an exception out breaks its promise, as the cast does here.
  static const tenon_plugin plugin = {FAKE_SIZE,
                                      FAKE_MAJOR,
                                      FAKE_MINOR,
                                      0,
                                      FAKE_MAGIC,
                                      str(FAKE_SAYS_NAME),
                                      str("1.2.3"),
                                      str("Apache-2.0"),
                                      reinterpret_cast<Init>(FAKE_INIT),
                                      nullptr};
  return &plugin;
}
