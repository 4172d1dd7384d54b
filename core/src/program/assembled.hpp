// assembled.hpp: matrices that no file holds as a weight wants them: rows of several tensors joined, or one turned.
#pragma once

#include "graph/names.hpp"

#include <tenon/abi.h>

#include <array>
#include <string>
#include <vector>

namespace tenon::program {

using Planes = std::array<std::vector<uint8_t>, 4>;  // by role; empty = the dtype has none

constexpr bool is_assembled(uint32_t transform) {
  return transform == TENON_TRANSFORM_JOIN_ROWS || transform == TENON_TRANSFORM_TRANSPOSE;
}

// Whether bytes of that dtype can be joined or turned so. Throws Error(kFile) where they cannot; `weight` names the result.
void check_assembled(const graph::Binding& binding, const tenon_dtype& dtype, const std::string& weight);

// Both read the files and give their pages back. The binding has been checked.
Planes joined_rows(const source::ModelSource& source, const graph::Binding& binding);
Planes transposed(const source::ModelSource& source, const graph::Binding& binding, const tenon_weight& weight);

}  // namespace tenon::program
