// plugin.cpp: the safetensors format and the dtypes that only it has, as the host sees them.
#include <tenon/sdk/plugin.hpp>

#include "dtype/records.hpp"
#include "source.hpp"

namespace tenon::safetensors {
namespace {

const Source& of(void* source) { return *static_cast<const Source*>(source); }

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str file_name, uint32_t* score) noexcept {
  *score = probe_score(sdk::to_view(file_name), head, n);
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

constexpr std::string_view kName = "safetensors", kScheme = "hf";
const tenon_format kFormat = {sizeof(tenon_format),
                              TENON_FORMAT_TAKES_ABSENT,
                              sdk::to_str(kName),
                              sdk::to_str(kScheme),
                              nullptr,
                              probe,
                              open,
                              more,
                              meta,
                              tensor,
                              close};

}  // namespace
}  // namespace tenon::safetensors

TENON_PLUGIN("safetensors", "0.1.0") {
  tenon::safetensors::register_dtypes(registrar);
  registrar.format(&tenon::safetensors::kFormat);
}
