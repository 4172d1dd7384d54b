// product.cpp: E2M1 codes and E4M3 scales in registers; built once an instruction set.
#include "../../simd/coded_product.hpp"
#include "../../simd/e4m3.hpp"
#include "panel.hpp"

namespace tenon::fp4::TENON_ISA {
namespace {

using namespace cpu::TENON_ISA;

struct alignas(64) Values {
  float at[16];
};
constexpr Values kValues = {{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6}};

#if defined(TENON_ISA_avx512)

struct Codes {
  __m512i p;
};
TENON_INLINE Codes load_codes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
// A permutation reads the lowest four bits of an index.
template <int j>
TENON_INLINE F column(Codes codes) {
  return {{_mm512_permutexvar_ps(_mm512_srli_epi32(codes.p, 4 * j), _mm512_load_ps(kValues.at))}};
}

#elif defined(TENON_ISA_avx2)

struct Codes {
  __m256i p[2];
};
TENON_INLINE Codes load_codes(const uint8_t* p) {
  return {{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))}};
}
// A permutation reads the lowest three bits of an index: magnitudes, then the sign.
template <int j>
TENON_INLINE F column(Codes codes) {
  F out;
  TENON_EACH_PART {
    const __m256 size = _mm256_permutevar8x32_ps(_mm256_load_ps(kValues.at), _mm256_srli_epi32(codes.p[i], 4 * j));
    const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(codes.p[i], 28 - 4 * j));
    out.p[i] = _mm256_xor_ps(size, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
  }
  return out;
}

#else

struct Codes {
  uint32_t p[kLanes];
};
TENON_INLINE Codes load_codes(const uint8_t* p) {
  Codes codes;
  memcpy(&codes, p, sizeof codes);
  return codes;
}
// A call, since sixteen lookups for each column of each tile would make long code.
__attribute__((noinline)) F looked_up(const Codes& codes, int shift) {
  float out[kLanes];
  for (int i = 0; i < kLanes; ++i) out[i] = kValues.at[codes.p[i] >> shift & 15];
  return cpu::TENON_ISA::load(out);
}
template <int j>
TENON_INLINE F column(const Codes& codes) {
  return looked_up(codes, 4 * j);
}

#endif

struct Codec {
  static constexpr bool kScaled = true, kRest = false;
  static constexpr int kStep = kWordCols, kStepBytes = 64;
  static constexpr int64_t group = kGroup;
  int64_t cols;

  int64_t panel_bytes() const { return fp4::panel_bytes(cols); }
  static TENON_INLINE const uint8_t* codes(const uint8_t* panel, int64_t c) { return unit(panel, c) + code_offset(c); }
  using Word = Codes;
  static TENON_INLINE Word load(const uint8_t* p) { return load_codes(p); }
  template <int j>
  static TENON_INLINE F value(const Word& word) {
    return column<j>(word);
  }
  static TENON_INLINE F scale(const uint8_t* panel, int64_t g) {
    return load_e4m3(unit(panel, g * kGroup) + scale_offset(g * kGroup));
  }
  static TENON_INLINE F factor(const uint8_t* panel) {
    return cpu::TENON_ISA::load(reinterpret_cast<const float*>(panel));
  }
};

constexpr auto with_codec = [](const tenon_weight& w, auto body) { body(Codec{w.cols}); };

void linear(const tenon_args* args, const tenon_exec* exec) { coded_linear(args, exec, with_codec); }
tenon_status experts(const cpu::CodedExpertPlan* plan, const tenon_args* args, const tenon_exec* exec) {
  return coded_experts(plan, args, exec, with_codec);
}

}  // namespace

extern const cpu::CodedTable kTable;
const cpu::CodedTable kTable = {linear, experts};

}  // namespace tenon::fp4::TENON_ISA
