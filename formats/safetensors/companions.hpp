// companions.hpp: from the tensors of the files to those of the model: quantized codes with the scales that stand
// beside them under names with other endings.
//
// N is a tensor's name, mostly "X.weight". All scales are multipliers but for weight_global_scale.
//   FP8    N (F8_E4M3), with N_scale_inv, N_scale or X.qscale_weight: one number, one a row, or one for 128 × 128
//   NVFP4  N (U8), N_scale (F8_E4M3, one for 16 columns), N_scale_2 (F32): as ModelOpt writes it
//   NVFP4  X.weight_packed, X.weight_scale, X.weight_global_scale (a divisor): as compressed-tensors writes it
// A tensor of three dimensions is a stack of experts; so are its scales then.
#pragma once

#include <tenon/abi.h>

#include <string>
#include <vector>

#include "header.hpp"

namespace tenon::safetensors {

struct ModelTensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> dim;  // the first is contiguous
  std::vector<tenon_plane> planes;
};

// `file_names` for messages, by RawTensor::file. Throws CORRUPT or UNSUPPORTED naming tensor, companion, and what was
// expected and found; missing companions are all named in one message.
std::vector<ModelTensor> join_companions(const std::vector<const RawTensor*>& tensors,
                                         const std::vector<std::string>& file_names);

}  // namespace tenon::safetensors
