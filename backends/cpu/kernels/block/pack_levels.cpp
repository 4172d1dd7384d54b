// pack_levels.cpp: iq1, iq2, iq3 and the ternary types. Their codes name vectors of a codebook, or digits of a number
// in base 3. The dtype's own decoder turns a copy of the block with scale 1 into levels, so the codebooks stand in one
// place, with the format.
#include "pack_levels.hpp"

namespace tenon::block {
namespace {

constexpr int kCols = 256;
constexpr uint16_t kHalfOne = 0x3c00;

struct LevelCodes {
  uint8_t of[256];  // by level + 128
};
constexpr LevelCodes make_codes(Table table) {
  LevelCodes codes{};
  for (int code = 15; code >= 0; --code)
    if (table != Table::kNone) codes.of[table_values(table)[code] + 128] = static_cast<uint8_t>(code);
  for (int code = 0; code < 4; ++code)  // the ternary types
    if (table == Table::kNone) codes.of[code - 1 + 128] = static_cast<uint8_t>(code);
  return codes;
}
constexpr LevelCodes kIq1Codes = make_codes(Table::kIq1), kIq2Codes = make_codes(Table::kIq2),
                     kIq3XxsCodes = make_codes(Table::kIq3Xxs), kIq3SCodes = make_codes(Table::kIq3S),
                     kTernaryCodes = make_codes(Table::kNone);
const LevelCodes& codes_of(Table table) {
  switch (table) {
    case Table::kIq1:
      return kIq1Codes;
    case Table::kIq2:
      return kIq2Codes;
    case Table::kIq3Xxs:
      return kIq3XxsCodes;
    case Table::kIq3S:
      return kIq3SCodes;
    default:
      return kTernaryCodes;
  }
}

// The block's own f16 scale: the first field, or the last of the ternary types; iq1_m spreads it over the top bits of
// four words.
int64_t half_offset(Type type) { return type == Type::kTq1 || type == Type::kTq2 ? info(type).file_bytes - 2 : 0; }
uint16_t half_of(Type type, const uint8_t* block) {
  if (type != Type::kIq1M) return half_at(block + half_offset(type));
  uint32_t half = 0;
  for (int i = 0; i < 4; ++i) half |= static_cast<uint32_t>(half_at(block + 48 + 2 * i) >> 12) << (4 * i);
  return static_cast<uint16_t>(half);
}
void set_half(Type type, uint8_t* block, uint16_t half) {
  if (type != Type::kIq1M) {
    std::memcpy(block + half_offset(type), &half, 2);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    const auto word = static_cast<uint16_t>((half_at(block + 48 + 2 * i) & 0x0fff) | (half >> (4 * i) & 15) << 12);
    std::memcpy(block + 48 + 2 * i, &word, 2);
  }
}

// The odd factor of group `group`: the scale is d × this × 2^-scale_shift.
int factor_of(Type type, const uint8_t* block, int group) {
  switch (type) {
    case Type::kIq1S:
      return 2 * (half_at(block + 34 + 2 * group) >> 12 & 7) + 1;
    case Type::kIq1M:
      return 2 * (half_at(block + 48 + group / 4 * 2) >> (group % 4 * 3) & 7) + 1;
    case Type::kIq2Xxs:
      return static_cast<int>(2 * (word_at(block + 6 + 8 * group) >> 28) + 1);
    case Type::kIq3Xxs:
      return static_cast<int>(2 * (word_at(block + 66 + 4 * group) >> 28) + 1);
    default: {  // nibbles behind everything else: iq2_xs at 66, iq2_s at 74, iq3_s at 106
      const int at = type == Type::kIq2Xs ? 66 : type == Type::kIq2S ? 74 : 106;
      return 2 * (block[at + group / 2] >> (group % 2 * 4) & 15) + 1;
    }
  }
}

}  // namespace

BlockDecoder::BlockDecoder(const tenon_weight& weight)
    : one_(weight), record_(sdk::host().dtype(sdk::host().self, weight.dtype)) {
  one_.rows = 1, one_.n_expert = 0, one_.bank = nullptr;
}

void BlockDecoder::operator()(const uint8_t* block, float* values) const {
  tenon_weight one = one_;
  one.cols = record_->block_cols, one.row_bytes = record_->block_bytes;
  one.plane[0] = reinterpret_cast<tenon_addr>(block);
  if (record_->decode(&one, 0, 1, values) != TENON_OK)
    throw sdk::Error(TENON_INTERNAL, "block: the dtype's record failed to decode a block");
}

void pack_levels(Type type, const Lane& lane, const uint8_t* block, const BlockDecoder& decode) {
  const TypeInfo& t = info(type);
  uint8_t unit[128];
  std::memcpy(unit, block, static_cast<size_t>(t.file_bytes));
  set_half(type, unit, kHalfOne);
  float values[kCols];
  decode(unit, values);
  lane.half(0, half_of(type, block));
  float level_a_value[kCols / 16];  // by group of columns
  for (int g = 0; g < kCols / t.group; ++g) {
    const int factor = t.scales == ScaleKind::kSuper ? factor_of(type, block, g) : 1;
    if (t.scales == ScaleKind::kSuper) lane.byte(32 + g * 16, static_cast<uint8_t>(factor));
    level_a_value[g] = static_cast<float>(1 << t.scale_shift) / static_cast<float>(factor);
  }
  const LevelCodes& codes = codes_of(t.table);
  for (int b = 0; b < kCols / kBlockCols; ++b) {
    uint32_t low[8] = {}, high = 0;
    for (int i = 0; i < kBlockCols; ++i) {
      const int column = b * kBlockCols + i, at = 8 * (i % 4);
      const float level = values[column] * level_a_value[column / t.group];  // a whole number but for rounding
      const uint32_t code =
          codes.of[static_cast<uint8_t>(static_cast<int>(level < 0 ? level - 0.5f : level + 0.5f) + 128)];
      low[i / 4] |= (code & ((1u << t.low_bits) - 1)) << at;
      if (t.high_bits) high |= (code >> t.low_bits) << (at + i / 4);
    }
    const int64_t offset = code_bytes(type) * b;
    if (t.low_bits == 4) {
      put_nibbles(lane, offset, low);
    } else {
      put_pairs(lane, offset, 0, low);
    }
    if (t.high_bits) lane.word(offset, 2, high);
  }
}

}  // namespace tenon::block
