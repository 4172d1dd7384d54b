// records.hpp: the dtypes that only safetensors files have, and which dtype an element type of the format is.
#pragma once

#include <cstdint>
#include <string_view>
#include <tenon/sdk/plugin.hpp>

namespace tenon::safetensors {

enum class Dtype {
  kFp8,            // codes alone: the scale grid of NVFP4
  kFp8Tensor,      // one f32 factor (a stack: one an expert)
  kFp8TensorBf16,  // the same in bf16
  kFp8Row,         // one f32 factor a row
  kFp8RowBf16,
  kFp8Block128,  // one f32 factor for 128 × 128
  kFp8Block128Bf16,
  kNvfp4ModelOpt,  // E2M1, an E4M3 scale for 16 columns, an f32 factor
  kNvfp4Ct,        // the same with an f32 divisor
  kCount
};

const tenon_dtype& dtype_record(Dtype dtype);
// Known after register_dtypes().
uint32_t dtype_id(Dtype dtype);
void register_dtypes(sdk::Registrar& registrar);

// Of a plain tensor; TENON_DTYPE_NONE for a type that is not served.
uint32_t element_dtype(std::string_view type);

}  // namespace tenon::safetensors
