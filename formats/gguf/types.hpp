// types.hpp: GGUF's tensor types: their numbers, blocks, and the dtypes that serve them.
#pragma once

#include <cstdint>
#include <optional>
#include <tenon/sdk/plugin.hpp>

namespace tenon::gguf {

struct TensorType {
  const char* name;  // for people: "q4_k"
  uint32_t block_cols, block_bytes;
  uint32_t dtype;       // 0 when not served
  const char* refusal;  // why it is not served; null when it is
};

// Null for a number that the format never had. Ids of registered dtypes are known after register_dtypes().
const TensorType* tensor_type(uint32_t number);

// The number that files have for a dtype; nullopt where there is none.
std::optional<uint32_t> number_of_dtype(uint32_t dtype);

// Registers every block type with the host.
void register_dtypes(sdk::Registrar& registrar);

}  // namespace tenon::gguf
