// The CUDA backend: devices, memory, streams and graphs, and a kernel for every op of dense and recurrent models.
#include <tenon/sdk/plugin.hpp>

#include "backend.hpp"
#include "ops/delta.hpp"
#include "ops/head_chain.hpp"
#include "ops/ops.hpp"
#include "ops/row_chain.hpp"

TENON_PLUGIN("cuda", "0.1.0") {
  registrar.backend(tenon::cuda::backend_record());
  tenon::cuda::register_ops(registrar);
  tenon::cuda::register_row_chains(registrar);
  tenon::cuda::register_head_chains(registrar);
  tenon::cuda::register_delta_chains(registrar);
}
