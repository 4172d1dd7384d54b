// plugin.cpp: registers the family, once an instruction set.
#include <tenon/sdk/plugin.hpp>

#include "family.hpp"

TENON_PLUGIN("fp8", "0.1.0") {
  using namespace tenon::fp8;
  tenon::cpu::register_coded<Family>(registrar, "fp8", portable::kTable, avx2::kTable, avx512::kTable);
}
