// The oracle: a scalar kernel for every op, on every encoding and dtype.
#include "kernels.hpp"

TENON_PLUGIN("reference", "0.1.0") {
  using namespace tenon::reference;
  registrar.backend(backend());
  register_elementwise(registrar);
  register_rows(registrar);
  register_linear(registrar);
  register_attention(registrar);
  register_recurrent(registrar);
  register_experts(registrar);
}
