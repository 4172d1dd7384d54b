// fp8.hpp: records of E4M3 weights by the extent of a scale.
#pragma once

#include <tenon/abi.h>

#include <string_view>

namespace tenon::safetensors {

enum class ScaleExtent { kNone, kTensor, kRow, kBlock128 };
tenon_dtype fp8_record(std::string_view name, ScaleExtent extent, bool bf16_scale);

}  // namespace tenon::safetensors
