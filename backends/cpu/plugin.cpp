// The CPU backend: host memory, resident workers, and every op that is not a quantized product.
#include <tenon/sdk/plugin.hpp>

#include "backend.hpp"
#include "ops/ops.hpp"
#if __has_include("recurrent.hpp")
#include "recurrent.hpp"
#define TENON_CPU_HAS_RECURRENT 1
#endif

TENON_PLUGIN("cpu", "0.1.0") {
  registrar.backend(tenon::cpu::backend_record());
  tenon::cpu::register_ops(registrar);
  tenon::cpu::register_chains(registrar);
  tenon::cpu::register_linear(registrar);
  tenon::cpu::register_experts(registrar);
#ifdef TENON_CPU_HAS_RECURRENT
  tenon::cpu::register_recurrent(registrar);
#endif
}
