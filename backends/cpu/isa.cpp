#include "isa.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace tenon::cpu {

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    default:
      return "portable";
  }
}

const char* isa_features(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2 fma f16c";
    case Isa::kAvx512:
      return "avx512f avx512bw avx512dq avx512vl avx512vnni avx512bf16";
    default:
      return "";
  }
}

int isa_priority(Isa isa) { return 10 * static_cast<int>(isa); }

namespace {

#if defined(__x86_64__)
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Leaf cpuid(unsigned leaf, unsigned sub = 0) {
  Leaf out;
  if (!__get_cpuid_count(leaf, sub, &out.a, &out.b, &out.c, &out.d)) return {};
  return out;
}
bool bit(unsigned word, int index) { return (word >> index) & 1u; }

// Which register files the system saves at a context switch; without that an instruction set must not be used.
uint64_t saved_state() {
  if (!bit(cpuid(1).c, 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

// Linux saves the state of tiles for a process that has asked for it, all its threads included.
bool tiles_granted() {
#if defined(__linux__)
  constexpr int kRequestState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<std::string> machine_features() {
  std::vector<std::string> found;
  const auto add = [&](bool present, const char* name) {
    if (present) found.emplace_back(name);
  };
  const Leaf one = cpuid(1), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const uint64_t saved = saved_state();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6,
             tiles = (saved & 0x60000) == 0x60000 && tiles_granted();
  add(ymm && bit(seven.b, 5), "avx2");
  add(ymm && bit(one.c, 12), "fma");
  add(ymm && bit(one.c, 29), "f16c");
  add(zmm && bit(seven.b, 16), "avx512f");
  add(zmm && bit(seven.b, 30), "avx512bw");
  add(zmm && bit(seven.b, 17), "avx512dq");
  add(zmm && bit(seven.b, 31), "avx512vl");
  add(zmm && bit(seven.c, 11), "avx512vnni");
  add(zmm && bit(seven_one.a, 5), "avx512bf16");
  add(tiles && bit(seven.d, 24), "amx_tile");
  add(tiles && bit(seven.d, 25), "amx_int8");
  add(tiles && bit(seven.d, 22), "amx_bf16");
  return found;
}

std::string machine_name() {
  unsigned text[12] = {};
  if (cpuid(0x80000000u).a < 0x80000004u) return "x86-64";
  for (unsigned i = 0; i < 3; ++i) {
    const Leaf leaf = cpuid(0x80000002u + i);
    const unsigned words[4] = {leaf.a, leaf.b, leaf.c, leaf.d};
    std::memcpy(text + 4 * i, words, sizeof words);
  }
  const char* chars = reinterpret_cast<const char*>(text);
  std::string name(chars, strnlen(chars, sizeof text));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  return name.empty() ? "x86-64" : name;
}
#else
std::vector<std::string> machine_features() { return {}; }
std::string machine_name() { return "processor"; }
#endif

bool has_all(const std::vector<std::string>& features, std::string_view wanted) {
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(' '), wanted.size());
    if (std::find(features.begin(), features.end(), wanted.substr(0, end)) == features.end()) return false;
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
  }
  return true;
}

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return unsigned(CPU_COUNT(&set));
  return unsigned(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));  // more cores than the set can name
}

CpuInfo detect() {
  CpuInfo info;
  info.features = machine_features();
  info.name = machine_name();
  info.cores = usable_cores();
  if (has_all(info.features, isa_features(Isa::kAvx2))) {
    info.isa = has_all(info.features, isa_features(Isa::kAvx512)) ? Isa::kAvx512 : Isa::kAvx2;
  }
  const char* wish = std::getenv("TENON_CPU_ISA");
  if (!wish || !*wish) return info;
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa level = static_cast<Isa>(i);
    if (std::string_view(wish) != isa_name(level)) continue;
    if (level > info.isa) {
      info.note = std::string("TENON_CPU_ISA=") + wish + ": this machine offers " + isa_name(info.isa) + " at most";
      return info;
    }
    info.isa = level;
    // Features above the wanted level are hidden, so that the core's choice of kernels follows by itself.
    std::erase_if(info.features, [&](const std::string& feature) {
      if (level == Isa::kPortable) return true;
      return level == Isa::kAvx2 && (feature.starts_with("avx512") || feature.starts_with("amx"));
    });
    return info;
  }
  info.note = std::string("TENON_CPU_ISA=") + wish + ": expected portable, avx2 or avx512";
  return info;
}

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

}  // namespace tenon::cpu
