// Which dtypes device code decodes.
#include <string_view>

#include "ops.hpp"

namespace tenon::cuda {

Codec codec_of(uint32_t dtype) {
  static constexpr struct {
    std::string_view name;
    Codec codec;
  } kNames[] = {{"f32", Codec::kF32},
                {"f16", Codec::kF16},
                {"bf16", Codec::kBf16},
                {"q8_0", Codec::kQ8_0},
                {"q4_0", Codec::kQ4_0},
                {"q4_1", Codec::kQ4_1},
                {"q5_0", Codec::kQ5_0},
                {"q5_1", Codec::kQ5_1},
                {"q2_k", Codec::kQ2K},
                {"q3_k", Codec::kQ3K},
                {"q4_k", Codec::kQ4K},
                {"q5_k", Codec::kQ5K},
                {"q6_k", Codec::kQ6K},
                {"iq4_nl", Codec::kIq4Nl},
                {"iq4_xs", Codec::kIq4Xs},
                {"iq1_s", Codec::kIq1S},
                {"iq1_m", Codec::kIq1M},
                {"iq2_xxs", Codec::kIq2Xxs},
                {"iq2_xs", Codec::kIq2Xs},
                {"iq2_s", Codec::kIq2S},
                {"iq3_xxs", Codec::kIq3Xxs},
                {"iq3_s", Codec::kIq3S},
                {"tq1_0", Codec::kTq1_0},
                {"tq2_0", Codec::kTq2_0},
                {"mxfp4", Codec::kMxfp4},
                {"nvfp4", Codec::kNvfp4},
                {"fp8_e4m3", Codec::kFp8},
                {"fp8_tensor", Codec::kFp8Tensor},
                {"fp8_tensor_bf16", Codec::kFp8TensorBf16},
                {"fp8_row", Codec::kFp8Row},
                {"fp8_row_bf16", Codec::kFp8RowBf16},
                {"fp8_b128", Codec::kFp8B128},
                {"fp8_b128_bf16", Codec::kFp8B128Bf16},
                {"nvfp4_modelopt", Codec::kNvfp4Modelopt},
                {"nvfp4_ct", Codec::kNvfp4Ct}};
  const std::string_view name = sdk::dtype_name(dtype);
  for (const auto& known : kNames)
    if (known.name == name) return known.codec;
  return Codec::kNone;
}

}  // namespace tenon::cuda
