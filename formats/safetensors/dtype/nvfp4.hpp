// nvfp4.hpp: records of NVFP4 weights: two E2M1 codes a byte (the low half is the even column), an E4M3 scale for 16
// columns, and one f32 number for the tensor.
#pragma once

#include <tenon/abi.h>

#include <string_view>

namespace tenon::safetensors {

// `divides`: the tensor's number divides, as compressed-tensors has it; else it multiplies.
tenon_dtype nvfp4_record(std::string_view name, bool divides);

}  // namespace tenon::safetensors
