// What the conformance tests share.
#pragma once

#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::testing {

inline void load_reference() { Kit::instance().load(std::string(TENON_PLUGIN_DIR) + "/libtenon_reference.so"); }

inline void load_cpu() { Kit::instance().load(std::string(TENON_PLUGIN_DIR) + "/libtenon_cpu.so"); }

// Instruction sets whose kernels this machine can run; portable is always there.
inline std::vector<std::string> isas() {
  std::vector<std::string> out = {"portable"};
  if (machine_has("avx2 fma f16c")) out.push_back("avx2");
  if (machine_has("avx512f avx512bw avx512dq avx512vl avx512vnni avx512bf16")) out.push_back("avx512");
  return out;
}

}  // namespace tenon::testing
