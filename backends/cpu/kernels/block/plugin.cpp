// plugin.cpp: registers the family, its products once an instruction set.
#include <tenon/sdk/plugin.hpp>

#include "kernels.hpp"

TENON_PLUGIN("block", "0.1.0") {
  using namespace tenon::block;
  const auto products = [&](const InstructionSet& set, const char* feature, int32_t priority) {
    const std::string class_name = std::string("block.q8_32.") + set.name;
    tenon::sdk::KernelInfo info;
    info.pattern = "linear", info.numeric_class = class_name, info.feature = feature, info.priority = priority;
    registrar.kernel<Linear>(std::string("block.linear.") + set.name, info, set);
    const std::string expert_class = std::string("block.experts.q8_32.") + set.name;
    info.pattern = "expert_ffn", info.numeric_class = expert_class;
    registrar.kernel<ExpertFfn>(std::string("block.expert_ffn.") + set.name, info, set);
  };
  products(avx512::kInstructionSet, "avx512f avx512bw avx512dq avx512vl avx512vnni", 120);
  products(avx2::kInstructionSet, "avx2 fma f16c", 110);
  products(portable::kInstructionSet, "", 100);
  registrar.kernel<LinearAmx>("block.linear.amx",
                              {.pattern = "linear",
                               .numeric_class = "block.bf16.amx",
                               .feature = "avx512f avx512bw avx512dq avx512vl avx512vnni avx512bf16 amx_tile amx_bf16",
                               .priority = 130},
                              avx512::kInstructionSet);
  registrar.kernel<Embed>("block.embed", {.pattern = "embed", .numeric_class = "embed.exact", .priority = 120});
}
