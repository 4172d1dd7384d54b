// isa.hpp: which instruction sets this process may use. Built for the baseline, decided once at run time.
#pragma once

#include <tenon/abi.h>

#include <string>
#include <vector>

namespace tenon::cpu {

// Each level includes the ones before it. AVX2 stands for avx2, fma and f16c; AVX-512 for f, bw, dq, vl, vnni and bf16.
enum class Isa { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kIsaCount = 3;

// The name that kernels carry ("portable", "avx2", "avx512").
const char* isa_name(Isa isa);

// Device features that a kernel of the level needs, separated by spaces; for KernelInfo.feature.
const char* isa_features(Isa isa);

// Priority among kernels of one op: 0, 10, 20.
int isa_priority(Isa isa);

// What the machine has and TENON_CPU_ISA (portable, avx2 or avx512) leaves. Computed once; any thread.
struct CpuInfo {
  Isa isa = Isa::kPortable;
  std::vector<std::string> features;  // "avx2", "fma", … as the device record lists them
  std::string name;                   // of the processor, for people
  unsigned cores = 1;                 // that the process may run on
  std::string note;                   // why TENON_CPU_ISA was not followed; empty if it was
};
const CpuInfo& cpu_info();

}  // namespace tenon::cpu
