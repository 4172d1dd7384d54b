// product.cpp: E4M3 codes in registers; built once an instruction set.
#include "../../simd/coded_product.hpp"
#include "../../simd/e4m3.hpp"
#include "panel.hpp"

namespace tenon::fp8::TENON_ISA {
namespace {

using namespace cpu::TENON_ISA;

template <bool grid>
struct Codec {
  static constexpr bool kScaled = grid, kRest = true;
  static constexpr int kStep = 4, kStepBytes = 64;
  int64_t cols, group;

  explicit Codec(int64_t n) : cols(n), group(grid ? kGridCols : n) {}
  static constexpr uint32_t kLayout = grid ? kGrid : kPlain;
  int64_t panel_bytes() const { return fp8::panel_bytes(kLayout, cols); }
  const uint8_t* codes(const uint8_t* panel, int64_t c) const {
    return panel + codes_offset(kLayout, cols) + c * kRows;
  }
  using Word = const uint8_t*;
  static TENON_INLINE Word load(const uint8_t* p) { return p; }
  template <int j>
  static TENON_INLINE F value(Word p) {
    return load_e4m3(p + j * kRows);
  }
  TENON_INLINE F scale(const uint8_t* panel, int64_t g) const {
    float one;
    memcpy(&one, panel + 64 + g * 4, 4);
    return splat(one);
  }
  TENON_INLINE F factor(const uint8_t* panel) const {
    return cpu::TENON_ISA::load(reinterpret_cast<const float*>(panel));
  }
};

constexpr auto with_codec = [](const tenon_weight& w, auto body) {
  if (w.layout == kGrid) return body(Codec<true>(w.cols));
  return body(Codec<false>(w.cols));
};

void linear(const tenon_args* args, const tenon_exec* exec) { coded_linear(args, exec, with_codec); }
tenon_status experts(const cpu::CodedExpertPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  return coded_experts(plan, args, exec, with_codec);
}

}  // namespace

extern const cpu::CodedTable kTable;
const cpu::CodedTable kTable = {linear, experts};

}  // namespace tenon::fp8::TENON_ISA
