// Registration of the reference's kernels, one function a file.
#pragma once

#include <string>
#include <tenon/sdk/plugin.hpp>

namespace tenon::reference {

void register_elementwise(sdk::Registrar&);
void register_rows(sdk::Registrar&);
void register_linear(sdk::Registrar&);
void register_attention(sdk::Registrar&);
void register_recurrent(sdk::Registrar&);
void register_experts(sdk::Registrar&);

const tenon_backend* backend();

template <typename T>
void add_kernel(sdk::Registrar& registrar, const char* op) {
  registrar.kernel<T>(std::string("reference.") + op,
                      {.backend = "reference", .pattern = op, .numeric_class = "reference"});
}

}  // namespace tenon::reference
