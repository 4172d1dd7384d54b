// A format built with the header of another release; SKEW_NAME is the plugin's and the format's name. It writes and
// reads the tables as its own header has them.
#include <tenon/abi.h>

#include <cstring>
#include <string_view>

namespace {

tenon_str str(std::string_view text) { return {text.data(), text.size()}; }

tenon_status probe(void*, const uint8_t*, uint64_t, tenon_str, uint32_t* score) noexcept {
  return *score = 1, TENON_OK;
}
tenon_status open(void*, tenon_file* const*, uint32_t, void**) noexcept { return TENON_UNSUPPORTED; }
tenon_status more(void*, uint32_t, tenon_str*) noexcept { return TENON_NOT_FOUND; }
tenon_status meta(void*, uint64_t, tenon_str*, tenon_value*) noexcept { return TENON_NOT_FOUND; }
tenon_status tensor(void*, uint64_t, tenon_tensor*) noexcept { return TENON_NOT_FOUND; }
void close(void*) noexcept {}

tenon_format& format() {
  static tenon_format table;
  std::memset(&table, 0xee, sizeof table);  // also what a later release added, and this host must not look at
  table.struct_size = sizeof table, table.flags = 0, table.self = nullptr;
  table.name = str(SKEW_NAME), table.scheme = str("skew");
  table.probe = probe, table.open = open, table.more = more, table.meta = meta, table.tensor = tensor;
  table.close = close;
#ifndef SKEW_WITHOUT_LAYOUT
  table.layout = nullptr;
#endif
  return table;
}

tenon_status init(const tenon_host* host, const tenon_registrar* registrar) noexcept {
#ifdef SKEW_LATER
  // What came later is not there, and the sizes say so.
  if (TENON_HAS(host, since_later) || TENON_HAS(registrar, since_later))
    return host->fail(host->self, TENON_INTERNAL, str("the host claims members that it does not have"));
#else
  // A host may have more than this header knows, never less.
  if (host->struct_size < sizeof *host || registrar->struct_size < sizeof *registrar)
    return host->fail(host->self, TENON_INTERNAL, str("the host has fewer members than an older one"));
#endif
  return registrar->format(registrar->self, &format());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_plugin* tenon_plugin_entry() {
  static const tenon_plugin plugin = [] {
    tenon_plugin table;
    std::memset(&table, 0, sizeof table);
    table.struct_size = sizeof table, table.abi_major = TENON_ABI_MAJOR, table.abi_minor = TENON_ABI_MINOR;
    table.magic = TENON_MAGIC, table.name = str(SKEW_NAME), table.version = str("0.1.0");
    table.licence = str("Apache-2.0"), table.init = init;
    return table;
  }();
  return &plugin;
}
