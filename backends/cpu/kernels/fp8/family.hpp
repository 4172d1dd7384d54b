// family.hpp: FP8 E4M3 weights of every extent of scale, for the kernel classes of coded_kernels.hpp.
#pragma once

#include "../../simd/coded_kernels.hpp"
#include "panel.hpp"

namespace tenon::fp8 {

struct Family {
  static constexpr const char* kServes = "FP8 E4M3 weights";
  static std::optional<uint32_t> layout_of(uint32_t dtype);
  static int64_t block_cols(uint32_t) { return 1; }
  static int64_t panel_bytes(uint32_t layout, int64_t cols) { return fp8::panel_bytes(layout, cols); }
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

}  // namespace tenon::fp8
