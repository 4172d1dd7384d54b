// writer.hpp: the begin of a GGUF file (version 3) and the places of its tensors.
#pragma once

#include <tenon/abi.h>

namespace tenon::gguf {

// tenon_format.layout. Honours general.alignment among the entries; keys of a split set are left out, since the file is
// whole.
tenon_status layout(void* self, const tenon_layout* file) noexcept;

}  // namespace tenon::gguf
