// family.hpp: NVFP4 weights of both dialects of safetensors and of GGUF, for the kernel classes of coded_kernels.hpp.
#pragma once

#include "../../simd/coded_kernels.hpp"
#include "panel.hpp"

namespace tenon::fp4 {

struct Family {
  static constexpr const char* kServes = "NVFP4 weights";
  static std::optional<uint32_t> layout_of(uint32_t dtype);
  static int64_t block_cols(uint32_t dtype);
  static int64_t panel_bytes(uint32_t, int64_t cols) { return fp4::panel_bytes(cols); }
  static void pack_panel(const tenon_weight& src, uint32_t layout, int64_t row0, int64_t rows, uint8_t* panel);
};

namespace portable {
extern const cpu::CodedTable kTable;
}
namespace avx2 {
extern const cpu::CodedTable kTable;
}
namespace avx512 {
extern const cpu::CodedTable kTable;
}

}  // namespace tenon::fp4
