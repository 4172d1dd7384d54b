#include "records.hpp"

#include <array>

#include "fp8.hpp"
#include "nvfp4.hpp"

namespace tenon::safetensors {
namespace {

constexpr size_t kCount = size_t(Dtype::kCount);

// In the order of Dtype. Read-only from the first call on, and alive as long as the library.
const std::array<tenon_dtype, kCount>& records() {
  static const std::array<tenon_dtype, kCount> all = {
      fp8_record("fp8_e4m3", ScaleExtent::kNone, false),
      fp8_record("fp8_tensor", ScaleExtent::kTensor, false),
      fp8_record("fp8_tensor_bf16", ScaleExtent::kTensor, true),
      fp8_record("fp8_row", ScaleExtent::kRow, false),
      fp8_record("fp8_row_bf16", ScaleExtent::kRow, true),
      fp8_record("fp8_b128", ScaleExtent::kBlock128, false),
      fp8_record("fp8_b128_bf16", ScaleExtent::kBlock128, true),
      nvfp4_record("nvfp4_modelopt", false),
      nvfp4_record("nvfp4_ct", true),
  };
  return all;
}

// Written once, while the plugin is initialised.
std::array<uint32_t, kCount>& ids() {
  static std::array<uint32_t, kCount> all = {};
  return all;
}

}  // namespace

const tenon_dtype& dtype_record(Dtype dtype) { return records()[size_t(dtype)]; }
uint32_t dtype_id(Dtype dtype) { return ids()[size_t(dtype)]; }

void register_dtypes(sdk::Registrar& registrar) {
  for (size_t i = 0; i < kCount; ++i) ids()[i] = registrar.dtype(&records()[i]);
}

uint32_t element_dtype(std::string_view type) {
  struct Entry {
    std::string_view type;
    uint32_t dtype;
  };
  static constexpr Entry kEntries[] = {{"F32", TENON_DTYPE_F32}, {"F16", TENON_DTYPE_F16}, {"BF16", TENON_DTYPE_BF16},
                                       {"F64", TENON_DTYPE_F64}, {"I8", TENON_DTYPE_I8},   {"I16", TENON_DTYPE_I16},
                                       {"I32", TENON_DTYPE_I32}, {"I64", TENON_DTYPE_I64}, {"U8", TENON_DTYPE_U8},
                                       {"BOOL", TENON_DTYPE_U8}};
  if (type == "F8_E4M3") return dtype_id(Dtype::kFp8);
  for (const Entry& entry : kEntries)
    if (entry.type == type) return entry.dtype;
  return TENON_DTYPE_NONE;
}

}  // namespace tenon::safetensors
