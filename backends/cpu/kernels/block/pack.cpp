// pack.cpp: the file's blocks into panels. Sub-dword shuffles work on four columns at a time in a 32-bit word, which is
// also the unit that a lane keeps, so most of a block moves as whole words.
#include "pack.hpp"

#include "lane.hpp"
#include "pack_levels.hpp"

namespace tenon::block {
namespace {

constexpr uint32_t kNibbles = 0x0f0f0f0fu;

struct SpreadTable {
  uint32_t word[256];
};
// Bits 0 … 3 of a byte to bit 0 of bytes 0 … 3, bits 4 … 7 to bit 1: two quads of a q5_0 block's high bits.
constexpr SpreadTable make_spread() {
  SpreadTable table{};
  for (uint32_t value = 0; value < 256; ++value)
    for (uint32_t bit = 0; bit < 8; ++bit)
      if (value >> bit & 1) table.word[value] |= 1u << (8 * (bit % 4) + bit / 4);
  return table;
}
constexpr SpreadTable kSpread = make_spread();

void pack_nibble_words(const Lane& lane, int64_t block_offset, const uint8_t* codes) {
  for (int v = 0; v < 4; ++v) lane.word(block_offset, v, word_at(codes + 4 * v));
}

// Blocks of 32: d, then m for some, then high bits for some, then codes.
void pack_small(Type type, const Lane& lane, const uint8_t* block) {
  const TypeInfo& t = info(type);
  lane.half(0, half_at(block));
  block += 2;
  if (t.scales == ScaleKind::kHalfMin) {
    lane.half(1, half_at(block));
    block += 2;
  }
  if (t.low_bits == 8) {
    for (int v = 0; v < 8; ++v) lane.word(0, v, word_at(block + 4 * v) ^ 0x80808080u);
    return;
  }
  if (t.high_bits) {
    lane.word(0, 4,
              kSpread.word[block[0]] | kSpread.word[block[1]] << 2 | kSpread.word[block[2]] << 4 |
                  kSpread.word[block[3]] << 6);
    block += 4;
  }
  pack_nibble_words(lane, 0, block);
}

// The 6-bit scales and mins of q4_k and q5_k.
void pack_scales_k4(const Lane& lane, const uint8_t* s) {
  for (int g = 0; g < 4; ++g) {
    lane.byte(64 + g * 16, s[g] & 63);
    lane.byte(64 + (g + 4) * 16, (s[g + 8] & 15) | (s[g] >> 6) << 4);
    lane.byte(64 + (g + 8) * 16, s[g + 4] & 63);
    lane.byte(64 + (g + 12) * 16, (s[g + 8] >> 4) | (s[g + 4] >> 6) << 4);
  }
}

void pack_q45k(const Lane& lane, const uint8_t* block, bool five) {
  const int64_t stride = code_bytes(five ? Type::kQ5K : Type::kQ4K);
  lane.half(0, half_at(block));
  lane.half(1, half_at(block + 2));
  pack_scales_k4(lane, block + 4);
  const uint8_t* high = block + 16;
  const uint8_t* codes = block + (five ? 48 : 16);
  for (int pair = 0; pair < 4; ++pair) {
    uint32_t w[8];
    for (int q = 0; q < 8; ++q) w[q] = word_at(codes + 32 * pair + 4 * q);
    for (int v = 0; v < 4; ++v) {
      lane.word(stride * 2 * pair, v, (w[v] & kNibbles) | (w[v + 4] & kNibbles) << 4);
      lane.word(stride * (2 * pair + 1), v, (w[v] >> 4 & kNibbles) | (w[v + 4] & ~kNibbles));
    }
  }
  if (!five) return;
  uint32_t h[8];
  for (int q = 0; q < 8; ++q) h[q] = word_at(high + 4 * q);
  for (int g = 0; g < 8; ++g) {
    uint32_t word = 0;
    for (int q = 0; q < 8; ++q) word |= (h[q] >> g & 0x01010101u) << q;
    lane.word(stride * g, 4, word);
  }
}

void pack_q6k(const Lane& lane, const uint8_t* block) {
  constexpr int64_t kStride = code_bytes(Type::kQ6K);
  lane.half(0, half_at(block + 208));
  for (int g = 0; g < 16; ++g) lane.byte(32 + g * 16, block[192 + g]);
  for (int g = 0; g < 8; ++g) {
    const int half = g / 4, j = g % 4;
    uint32_t low[8], high[8];
    for (int q = 0; q < 8; ++q) {
      low[q] = word_at(block + 64 * half + 32 * (j & 1) + 4 * q) >> (4 * (j >> 1)) & kNibbles;
      high[q] = word_at(block + 128 + 32 * half + 4 * q) >> (2 * j) & 0x03030303u;
    }
    put_nibbles(lane, kStride * g, low);
    put_pairs(lane, kStride * g, 4, high);
  }
}

// Codes of two bits, shared by q2_k and q3_k.
void pack_two_bits(const Lane& lane, int64_t stride, const uint8_t* codes) {
  for (int g = 0; g < 8; ++g) {
    uint32_t quad[8];
    for (int q = 0; q < 8; ++q) quad[q] = word_at(codes + 32 * (g / 4) + 4 * q) >> (2 * (g % 4)) & 0x03030303u;
    put_pairs(lane, stride * g, 0, quad);
  }
}

void pack_q2k(const Lane& lane, const uint8_t* block) {
  lane.half(0, half_at(block + 80));
  lane.half(1, half_at(block + 82));
  for (int g = 0; g < 16; ++g) lane.byte(64 + g * 16, block[g]);
  pack_two_bits(lane, code_bytes(Type::kQ2K), block + 16);
}

void pack_q3k(const Lane& lane, const uint8_t* block) {
  constexpr int64_t kStride = code_bytes(Type::kQ3K);
  const uint8_t* s = block + 96;
  lane.half(0, half_at(block + 108));
  for (int g = 0; g < 16; ++g) {
    const int scale = (s[g % 8] >> (4 * (g / 8)) & 15) | (s[8 + g % 4] >> (2 * (g / 4)) & 3) << 4;
    lane.byte(32 + g * 16, static_cast<uint8_t>(scale - 32));
  }
  pack_two_bits(lane, kStride, block + 32);
  for (int g = 0; g < 8; ++g) {
    uint32_t word = 0;
    for (int q = 0; q < 8; ++q) word |= (word_at(block + 4 * q) >> g & 0x01010101u) << q;
    lane.word(kStride * g, 2, word);
  }
}

void pack_iq4xs(const Lane& lane, const uint8_t* block) {
  const uint32_t scales_high = half_at(block + 2);
  lane.half(0, half_at(block));
  for (int g = 0; g < 8; ++g) {
    const int scale = (block[4 + g / 2] >> (4 * (g & 1)) & 15) | (scales_high >> (2 * g) & 3) << 4;
    lane.byte(32 + g * 16, static_cast<uint8_t>(scale - 32));
    pack_nibble_words(lane, code_bytes(Type::kIq4Xs) * g, block + 8 + 16 * g);
  }
}

// Half of an e8m0 scale, 2^(e - 128), is a bf16 number.
void pack_mxfp4(const Lane& lane, const uint8_t* block) {
  const int e = block[0];
  lane.half(0, static_cast<uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7));
  pack_nibble_words(lane, 0, block + 1);
}

template <Type type>
void pack_block(const Lane& lane, const uint8_t* block, const BlockDecoder& decode) {
  if constexpr (is_levels(type)) return pack_levels(type, lane, block, decode);
  if constexpr (type == Type::kMxfp4) return pack_mxfp4(lane, block);
  if constexpr (!is_super(type)) pack_small(type, lane, block);
  if constexpr (type == Type::kQ4K) pack_q45k(lane, block, false);
  if constexpr (type == Type::kQ5K) pack_q45k(lane, block, true);
  if constexpr (type == Type::kQ6K) pack_q6k(lane, block);
  if constexpr (type == Type::kQ2K) pack_q2k(lane, block);
  if constexpr (type == Type::kQ3K) pack_q3k(lane, block);
  if constexpr (type == Type::kIq4Xs) pack_iq4xs(lane, block);
}

template <Type type>
void pack_panel(const uint8_t* src, int64_t row_bytes, int64_t cols, int lanes, const BlockDecoder& decode,
                uint8_t* panel) {
  constexpr TypeInfo kInfo = kTypeInfo[static_cast<int>(type)];
  const int64_t unit_codes = kInfo.file_cols / kBlockCols * code_bytes(type);
  const int64_t codes = codes_offset(type, cols);
  const int64_t units = cols / kInfo.file_cols;
  if (lanes < kPanelRows) std::memset(panel, 0, static_cast<size_t>(panel_bytes(type, cols)));
  // The scales' padding too, so that a packed weight has no undefined byte.
  const int64_t scale_end = units * scale_unit_bytes(type);
  std::memset(panel + scale_end, 0, static_cast<size_t>(codes - scale_end));
  for (int64_t u = 0; u < units; ++u)
    for (int l = 0; l < lanes; ++l)
      pack_block<type>({panel + u * scale_unit_bytes(type), panel + codes + u * unit_codes, l},
                       src + l * row_bytes + u * kInfo.file_bytes, decode);
}

using PanelPacker = void (*)(const uint8_t*, int64_t, int64_t, int, const BlockDecoder&, uint8_t*);
constexpr PanelPacker kPackers[kTypes] = {
    pack_panel<Type::kQ4_0>,  pack_panel<Type::kQ4_1>,  pack_panel<Type::kQ5_0>,   pack_panel<Type::kQ5_1>,
    pack_panel<Type::kQ8_0>,  pack_panel<Type::kIq4Nl>, pack_panel<Type::kQ2K>,    pack_panel<Type::kQ3K>,
    pack_panel<Type::kQ4K>,   pack_panel<Type::kQ5K>,   pack_panel<Type::kQ6K>,    pack_panel<Type::kIq4Xs>,
    pack_panel<Type::kMxfp4>, pack_panel<Type::kIq1S>,  pack_panel<Type::kIq1M>,   pack_panel<Type::kIq2Xxs>,
    pack_panel<Type::kIq2Xs>, pack_panel<Type::kIq2S>,  pack_panel<Type::kIq3Xxs>, pack_panel<Type::kIq3S>,
    pack_panel<Type::kTq1>,   pack_panel<Type::kTq2>,
};

}  // namespace

void pack_rows(Type type, const tenon_weight& src, int64_t row0, int64_t rows, uint8_t* dst) {
  const int64_t bytes = panel_bytes(type, src.cols);
  const int64_t row_bytes = src.row_bytes ? src.row_bytes : src.cols / info(type).file_cols * info(type).file_bytes;
  const BlockDecoder decode(src);
  for (int64_t r = row0; r < row0 + rows; r += kPanelRows) {
    const int64_t left = row0 + rows - r;
    kPackers[static_cast<int>(type)](sdk::at<const uint8_t>(src.plane[0], r * row_bytes), row_bytes, src.cols,
                                     static_cast<int>(left < kPanelRows ? left : kPanelRows), decode,
                                     dst + r / kPanelRows * bytes);
  }
}

}  // namespace tenon::block
