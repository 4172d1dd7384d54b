// codes.hpp: a quad of a packed block as unsigned bytes, and a group's scales; per instruction set.
#pragma once

#include "types.hpp"

#if defined(TENON_ISA_avx512)
#include "lanes_avx512.hpp"
#elif defined(TENON_ISA_avx2)
#include "lanes_avx2.hpp"
#else
#include "lanes_portable.hpp"
#endif

namespace tenon::block::TENON_ISA {

struct alignas(16) ByteTable {
  uint8_t at[16];
};
// The type's table, moved so that no byte is negative.
template <Type type>
struct TableBytes {
  static constexpr ByteTable make() {
    constexpr TypeInfo kInfo = kTypeInfo[static_cast<int>(type)];
    ByteTable table{};
    for (int i = 0; i < 16; ++i) table.at[i] = static_cast<uint8_t>(table_values(kInfo.table)[i] + kInfo.offset);
    return table;
  }
  static constexpr ByteTable kBytes = make();
};

// Quad q of the block of codes at `block` (plus 4 × the first lane): code, or table value + offset, of four columns a
// lane.
template <Type type, int q>
TENON_INLINE Bytes quad(const uint8_t* block) {
  constexpr TypeInfo kInfo = kTypeInfo[static_cast<int>(type)];
  constexpr int kLow = kInfo.low_bits, kHigh = kInfo.high_bits;
  if constexpr (kLow == 8) return load_bytes(block + q * 64);
  constexpr int kVector = kLow == 4 ? q % 4 : q / 4;
  constexpr int kShift = kLow == 4 ? q / 4 * 4 : q % 4 * 2;
  Bytes code = masked(shifted<kShift>(load_bytes(block + kVector * 64)), (1 << kLow) - 1);
  if constexpr (kHigh > 0) {
    constexpr int kHighVector = kHigh == 1 ? 0 : q / 4;
    constexpr int kFrom = kHigh == 1 ? q : q % 4 * 2;
    const Bytes high = shifted<kFrom - kLow>(load_bytes(block + high_offset(type) + kHighVector * 64));
    code = merged(code, high, ((1 << kHigh) - 1) << kLow);
  }
  if constexpr (kInfo.table != Table::kNone) return lookup(TableBytes<type>::kBytes.at, code);
  return code;
}

// Bits of a quad's bytes, for dot().
static constexpr int quad_bits(Type type) {
  switch (info(type).table) {
    case Table::kNone:
      return info(type).low_bits + info(type).high_bits;
    case Table::kIq4:
      return 8;
    case Table::kIq2:
    case Table::kIq3Xxs:
      return 7;
    default:
      return 5;
  }
}
// What quad() is too large by, as far as dot() does not see to it.
static constexpr int dot_offset(Type type) { return quad_bits(type) == 8 && kSignedDot8 ? 0 : info(type).offset; }

struct GroupScales {
  Floats scale, min;
};
// Scale and minimum of group `group` of the scale unit at `unit`, for the kLanes lanes from `lane` on.
template <Type type>
TENON_INLINE GroupScales group_scales(const uint8_t* unit, int lane, int group) {
  constexpr int kGroups = 256 / kTypeInfo[static_cast<int>(type)].group;
  constexpr ScaleKind kKind = kTypeInfo[static_cast<int>(type)].scales;
  if constexpr (kKind == ScaleKind::kBrain) {
    const Floats d = load_brains(unit + lane * 2);
    return {d, d};
  }
  const Floats d = load_halves(unit + lane * 2);
  if constexpr (kKind == ScaleKind::kHalf) return {d, d};
  if constexpr (kKind == ScaleKind::kHalfMin) return {d, load_halves(unit + 32 + lane * 2)};
  if constexpr (kKind == ScaleKind::kSuper) {
    constexpr int kDown = kTypeInfo[static_cast<int>(type)].scale_shift;
    Floats scale = mul(d, load_i8(unit + 32 + group * 16 + lane));
    if constexpr (kDown > 0) scale = mul(scale, broadcast(1.0f / static_cast<float>(1 << kDown)));
    return {scale, scale};
  }
  if constexpr (kKind == ScaleKind::kSuperMin || kKind == ScaleKind::kSuperMin4) {
    const Floats dmin = negated(load_halves(unit + 32 + lane * 2));
    const uint8_t* at = unit + 64 + group * 16 + lane;
    if constexpr (kKind == ScaleKind::kSuperMin) return {mul(d, load_i8(at)), mul(dmin, load_i8(at + kGroups * 16))};
    if constexpr (kKind == ScaleKind::kSuperMin4)
      return {mul(d, load_low_nibbles(at)), mul(dmin, load_high_nibbles(at))};
  }
}

}  // namespace tenon::block::TENON_ISA
