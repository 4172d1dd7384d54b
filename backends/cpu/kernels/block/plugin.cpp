// plugin.cpp: registers the family, one linear an instruction set.
#include <tenon/sdk/plugin.hpp>

#include "kernels.hpp"

TENON_PLUGIN("block", "0.1.0") {
  using namespace tenon::block;
  const auto linear = [&](const InstructionSet& set, const char* feature, int32_t priority) {
    const std::string class_name = std::string("block.q8_32.") + set.name;
    tenon::sdk::KernelInfo info;
    info.pattern = "linear", info.numeric_class = class_name, info.feature = feature, info.priority = priority;
    registrar.kernel<Linear>(std::string("block.linear.") + set.name, info, set);
  };
  linear(avx512::kInstructionSet, "avx512f avx512bw avx512dq avx512vl avx512vnni", 120);
  linear(avx2::kInstructionSet, "avx2 fma f16c", 110);
  linear(portable::kInstructionSet, "", 100);
  registrar.kernel<Embed>("block.embed", {.pattern = "embed", .numeric_class = "embed.exact", .priority = 120});
}
