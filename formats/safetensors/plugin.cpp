// plugin.cpp: the safetensors format and the dtypes that only it has, as the host sees them.
#include <tenon/sdk/format.hpp>

#include "dtype/records.hpp"
#include "source.hpp"

namespace tenon::safetensors {
namespace {

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str file_name, uint32_t* score) noexcept {
  *score = probe_score(sdk::to_view(file_name), head, n);
  return TENON_OK;
}

const tenon_format kFormat =
    sdk::Format<Source>::table("safetensors", "hf", TENON_FORMAT_TAKES_ABSENT, probe);

}  // namespace
}  // namespace tenon::safetensors

TENON_PLUGIN("safetensors", "0.1.0") {
  tenon::safetensors::register_dtypes(registrar);
  registrar.format(&tenon::safetensors::kFormat);
}
