// gguf_builder.hpp: the kit's writer of GGUF files, under the name that tests use.
#pragma once

#include "../../core/src/kit/gguf_builder.hpp"

namespace tenon::test {

using kit::GgufBuilder;

}  // namespace tenon::test
