// unpack.cpp: one lane of a panel as f32, for gathers from a packed table.
#include <cstring>

#include "pack.hpp"

namespace tenon::block {
namespace {

// The integer code of column `column` of a block for one lane.
int code_of(const TypeInfo& t, const uint8_t* block, int64_t high_at, int lane, int column) {
  const int q = column / 4;
  const int64_t byte = lane * 4 + column % 4;
  int code = 0;
  if (t.low_bits == 8) code = block[q * 64 + byte];
  if (t.low_bits == 4) code = block[q % 4 * 64 + byte] >> (q < 4 ? 0 : 4) & 15;
  if (t.low_bits == 2) code = block[q / 4 * 64 + byte] >> (2 * (q % 4)) & 3;
  if (t.high_bits == 1) code |= (block[high_at + byte] >> q & 1) << t.low_bits;
  if (t.high_bits == 2) code |= (block[high_at + q / 4 * 64 + byte] >> (2 * (q % 4)) & 3) << t.low_bits;
  return t.table == Table::kNone ? code - t.offset : table_values(t.table)[code];
}

float lane_half(const uint8_t* unit, int position, int lane) {
  uint16_t half;
  std::memcpy(&half, unit + position * 32 + lane * 2, 2);
  return half_to_float(half);
}

struct Affine {
  float scale, min;  // value = scale × code + min; min unused for types without one
};

// Scale and minimum of group `group` of a scale unit. d × scale is exact in f32: 11 bits by at most 8.
Affine affine_of(const TypeInfo& t, const uint8_t* unit, int lane, int group) {
  const float d = lane_half(unit, 0, lane);
  const int groups = 256 / t.group;
  switch (t.scales) {
    case ScaleKind::kBrain: {
      uint16_t brain;
      std::memcpy(&brain, unit + lane * 2, 2);
      const uint32_t bits = static_cast<uint32_t>(brain) << 16;
      float scale;
      std::memcpy(&scale, &bits, 4);
      return {scale, 0};
    }
    case ScaleKind::kHalf:
      return {d, 0};
    case ScaleKind::kHalfMin:
      return {d, lane_half(unit, 1, lane)};
    case ScaleKind::kSuper:
      return {d * static_cast<int8_t>(unit[32 + group * 16 + lane]) / static_cast<float>(1 << t.scale_shift), 0};
    case ScaleKind::kSuperMin:
      return {d * unit[64 + group * 16 + lane], -(lane_half(unit, 1, lane) * unit[64 + (groups + group) * 16 + lane])};
    case ScaleKind::kSuperMin4: {
      const int both = unit[64 + group * 16 + lane];
      return {d * (both & 15), -(lane_half(unit, 1, lane) * (both >> 4))};
    }
  }
  return {0, 0};
}

}  // namespace

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | mantissa << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    std::memcpy(&bits, &value, 4);
    bits |= sign;
  }
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

void unpack_row(Type type, const uint8_t* packed, int64_t cols, int64_t row, float factor, float* out) {
  const TypeInfo& t = info(type);
  const uint8_t* panel = packed + row / kPanelRows * panel_bytes(type, cols);
  const uint8_t* codes = panel + codes_offset(type, cols);
  const int lane = static_cast<int>(row % kPanelRows);
  const bool min = has_min(type);
  for (int64_t column = 0; column < cols; column += t.group) {
    const uint8_t* unit = panel + column / t.file_cols * scale_unit_bytes(type);
    const Affine affine = affine_of(t, unit, lane, static_cast<int>(column % t.file_cols / t.group));
    const uint8_t* block = codes + column / kBlockCols * code_bytes(type);
    for (int i = 0; i < t.group; ++i) {
      const int code = code_of(t, block, high_offset(type), lane, static_cast<int>(column % kBlockCols) + i);
      float value = affine.scale * static_cast<float>(code);
      if (min) value = value + affine.min;
      out[column + i] = value * factor;
    }
  }
}

}  // namespace tenon::block
