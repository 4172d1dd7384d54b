// linear_amx.cpp: the product in AMX tiles, for prefill. Every panel is decoded to bf16 once for up to 512 rows, two
// panels and a slab of K at a time, which the first-level cache holds.
#include <tenon/abi.h>

#include <utility>

#include "../../simd/amx.hpp"
#include "codes.hpp"
#include "linear.hpp"

namespace tenon::block::TENON_ISA {

#if defined(TENON_ISA_avx512)

namespace {

namespace amx = cpu::amx;

// Column 4 q + column of each lane, as the dtype's definition decodes it: scale × integer, then the minimum.
template <bool kMin, int column>
TENON_INLINE Floats values_of(Bytes signed_codes, const GroupScales& scales) {
  const __m512i code = _mm512_srai_epi32(_mm512_slli_epi32(signed_codes, 24 - 8 * column), 24);
  const Floats whole = _mm512_cvtepi32_ps(code);
  return kMin ? fma(whole, scales.scale, scales.min) : mul(whole, scales.scale);
}

// Words of `low` and `high` in turn, rounded to bf16.
TENON_INLINE void store_pairs(uint8_t* to, Floats low, Floats high) {
  alignas(64) static constexpr uint16_t kTurns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  _mm512_store_si512(to, _mm512_permutexvar_epi16(_mm512_load_si512(kTurns), both));
}

template <Type type, int q>
TENON_INLINE void quad_values(const uint8_t* codes, const GroupScales& scales, uint8_t* to) {
  constexpr bool kMin = has_min(type);
  Bytes whole = quad<type, q>(codes);
  if constexpr (kTypeInfo[static_cast<int>(type)].offset != 0)
    whole = _mm512_sub_epi8(whole, _mm512_set1_epi8(static_cast<char>(kTypeInfo[static_cast<int>(type)].offset)));
  store_pairs(to + q * 128, values_of<kMin, 0>(whole, scales), values_of<kMin, 1>(whole, scales));
  store_pairs(to + q * 128 + 64, values_of<kMin, 2>(whole, scales), values_of<kMin, 3>(whole, scales));
}

template <Type type, int half>
TENON_INLINE void half_values(const uint8_t* codes, const GroupScales& scales, uint8_t* to) {
  quad_values<type, 4 * half>(codes, scales, to);
  quad_values<type, 4 * half + 1>(codes, scales, to);
  quad_values<type, 4 * half + 2>(codes, scales, to);
  quad_values<type, 4 * half + 3>(codes, scales, to);
}

// Columns [column, column + columns) of a panel, whole blocks of 32, as bf16 [columns / 2][16][2].
template <Type type>
void decode(const uint8_t* panel, int64_t cols, int64_t column, int64_t columns, uint8_t* to) {
  constexpr TypeInfo kInfo = kTypeInfo[static_cast<int>(type)];
  constexpr int kGroups = kBlockCols / kInfo.group;  // of a block
  const uint8_t* codes = panel + codes_offset(type, cols) + column / kBlockCols * code_bytes(type);
  for (const int64_t end = column + columns; column < end; column += kBlockCols) {
    const uint8_t* unit = panel + column / kInfo.file_cols * scale_unit_bytes(type);
    const int group = static_cast<int>(column % kInfo.file_cols / kInfo.group);
    half_values<type, 0>(codes, group_scales<type>(unit, 0, group), to);
    half_values<type, 1>(codes, group_scales<type>(unit, 0, group + kGroups - 1), to);
    codes += code_bytes(type), to += kBlockCols * kPanelRows * 2;
  }
}

using Decoder = void (*)(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*);
template <int... type>
constexpr Decoder decoder_of(Type which, std::integer_sequence<int, type...>) {
  constexpr Decoder kDecoders[] = {decode<static_cast<Type>(type)>...};
  return kDecoders[static_cast<int>(which)];
}

}  // namespace

void linear_amx(const LinearJob& job) {
  for (int i = 0; i < job.n_product; ++i) {
    const Product& p = job.product[i];
    if (p.panel0 >= p.panel1) continue;
    const int64_t bytes = panel_bytes(p.type, job.cols), lanes = p.rows - (p.panel1 - 1) * kPanelRows;
    const Decoder decoder = decoder_of(p.type, std::make_integer_sequence<int, kTypes>());
    amx::Job tiles = {};
    tiles.x = job.x, tiles.x_row_bytes = job.x_row_bytes, tiles.rows = job.rows, tiles.k = job.cols;
    tiles.y = p.out + p.panel0 * kPanelRows, tiles.y_row_bytes = p.out_row_bytes;
    tiles.panels = p.panel1 - p.panel0, tiles.last_lanes = lanes < kPanelRows ? lanes : kPanelRows;
    tiles.scratch = job.scratch;
    amx::linear(tiles, [&](int64_t panel, int64_t column, int64_t columns, uint8_t* buffer) {
      decoder(p.packed + (p.panel0 + panel) * bytes, job.cols, column, columns, buffer);
      return buffer;
    });
  }
}

#endif

}  // namespace tenon::block::TENON_ISA
