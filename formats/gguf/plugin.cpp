// plugin.cpp: the GGUF format and its block types, as the host sees them.
#include <cstring>
#include <tenon/sdk/plugin.hpp>

#include "source.hpp"
#include "types.hpp"

namespace tenon::gguf {
namespace {

const Source& of(void* source) { return *static_cast<const Source*>(source); }

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str, uint32_t* score) noexcept {
  *score = n >= 4 && std::memcmp(head, "GGUF", 4) == 0 ? 100 : 0;
  return TENON_OK;
}

tenon_status open(void*, tenon_file* const* files, uint32_t n, void** source) noexcept {
  return sdk::guard([&] { *source = std::make_unique<Source>(std::vector<tenon_file*>(files, files + n)).release(); });
}

tenon_status more(void* source, uint32_t i, tenon_str* file_name) noexcept {
  const std::string* name = of(source).wanted(i);
  if (!name) return TENON_NOT_FOUND;
  *file_name = sdk::to_str(*name);
  return TENON_OK;
}

tenon_status meta(void* source, uint64_t i, tenon_str* key, tenon_value* value) noexcept {
  const MetaEntry* entry = of(source).entry(i);
  if (!entry) return TENON_NOT_FOUND;
  *key = sdk::to_str(entry->key);
  *value = entry->value;
  return TENON_OK;
}

tenon_status tensor(void* source, uint64_t i, tenon_tensor* out) noexcept {
  const tenon_tensor* found = of(source).tensor(i);
  if (!found) return TENON_NOT_FOUND;
  *out = *found;
  return TENON_OK;
}

void close(void* source) noexcept { std::unique_ptr<Source>(static_cast<Source*>(source)).reset(); }

constexpr std::string_view kName = "gguf";
const tenon_format kFormat = {
    sizeof(tenon_format), 0, sdk::to_str(kName), sdk::to_str(kName), nullptr, probe, open, more, meta, tensor, close};

}  // namespace
}  // namespace tenon::gguf

TENON_PLUGIN("gguf", "0.1.0") {
  tenon::gguf::register_dtypes(registrar);
  registrar.format(&tenon::gguf::kFormat);
}
