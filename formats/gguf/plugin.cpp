// plugin.cpp: the GGUF format and its block types, as the host sees them.
#include <cstring>
#include <tenon/sdk/format.hpp>

#include "source.hpp"
#include "types.hpp"
#include "writer.hpp"

namespace tenon::gguf {
namespace {

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str, uint32_t* score) noexcept {
  *score = n >= 4 && std::memcmp(head, "GGUF", 4) == 0 ? 100 : 0;
  return TENON_OK;
}

constexpr std::string_view kName = "gguf";
const tenon_format kFormat = sdk::Format<Source>::table(kName, kName, 0, probe, layout);

}  // namespace
}  // namespace tenon::gguf

TENON_PLUGIN("gguf", "0.1.0") {
  tenon::gguf::register_dtypes(registrar);
  registrar.format(&tenon::gguf::kFormat);
}
