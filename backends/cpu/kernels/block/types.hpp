// types.hpp: the block types that this family serves, and the geometry of their packed form. Included by sources that
// are built once an instruction set, so every function here has internal linkage.
//
// Packed form. Output rows are taken 16 at a time, a panel; lane l of a vector is row 16 p + l. A panel is
//   scales   of all column blocks, padded to a multiple of 64 bytes
//   codes    of all blocks of 32 columns, `code_bytes()` each
// and panels follow each other without a gap. Lanes past the last row are zero.
//
// Codes of a block are vectors of 64 bytes; byte 4 l + j of a vector belongs to lane l and to column 4 q + j of some
// quad q = 0 … 7, so one dot instruction multiplies four columns of 16 rows with four activations. First come the low
// bits:
//   8 bits: vector q is quad q
//   4 bits: quad q lies in vector q mod 4, low nibble for q < 4, else high
//   2 bits: quad q lies in vector q / 4 at bit 2 (q mod 4)
// then the high bits, if the type has any:
//   1 bit:  one vector, quad q at bit q
//   2 bits: quad q in vector q / 4 at bit 2 (q mod 4)
// Codes are unsigned; the weight's integer is code - offset, or table[code] for the types with a table.
//
// Scales, by kind (f16 vectors hold 16 lanes, as do i8 ones):
//   kHalf      a block of the file (32 or 256): d f16
//   kBrain     a block of 32:    d bf16
//   kHalfMin   a block of 32:    d f16, m f16
//   kSuper     a block of 256:   d f16, then a group: scale i8
//   kSuperMin  a block of 256:   d f16, dmin f16, then a group: scale i8, then a group: min i8
//   kSuperMin4 a block of 256:   d f16, dmin f16, then a group: scale in the low nibble, min in the high one
#pragma once

#include <cstdint>

namespace tenon::block {

enum class ScaleKind : uint8_t { kHalf, kBrain, kHalfMin, kSuper, kSuperMin, kSuperMin4 };
enum class Table : uint8_t { kNone, kIq4, kE2m1, kIq1, kIq2, kIq3Xxs, kIq3S };

enum class Type : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kIq4Nl,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Xs,
  kMxfp4,
  kIq1S,
  kIq1M,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
  kTq1,
  kTq2,
  kCount
};
constexpr int kTypes = static_cast<int>(Type::kCount);

constexpr int kPanelRows = 16;
constexpr int kBlockCols = 32;  // columns that one scale of the activations covers

struct TypeInfo {
  const char* name;    // of the dtype record
  int16_t file_cols;   // columns of a block in the file
  int16_t file_bytes;  // bytes of a block in the file
  uint8_t low_bits, high_bits;
  Table table;     // what codes index
  int16_t offset;  // weight's integer = code - offset; with a table, code is table value + offset
  uint8_t group;   // columns that share a scale: 16 or 32
  ScaleKind scales;
  uint8_t scale_shift = 0;  // scales are 2^-this of what the unit says
};

constexpr TypeInfo kTypeInfo[kTypes] = {
    {"q4_0", 32, 18, 4, 0, Table::kNone, 8, 32, ScaleKind::kHalf},
    {"q4_1", 32, 20, 4, 0, Table::kNone, 0, 32, ScaleKind::kHalfMin},
    {"q5_0", 32, 22, 4, 1, Table::kNone, 16, 32, ScaleKind::kHalf},
    {"q5_1", 32, 24, 4, 1, Table::kNone, 0, 32, ScaleKind::kHalfMin},
    {"q8_0", 32, 34, 8, 0, Table::kNone, 128, 32, ScaleKind::kHalf},
    {"iq4_nl", 32, 18, 4, 0, Table::kIq4, 128, 32, ScaleKind::kHalf},
    {"q2_k", 256, 84, 2, 0, Table::kNone, 0, 16, ScaleKind::kSuperMin4},
    {"q3_k", 256, 110, 2, 1, Table::kNone, 4, 16, ScaleKind::kSuper},
    {"q4_k", 256, 144, 4, 0, Table::kNone, 0, 32, ScaleKind::kSuperMin},
    {"q5_k", 256, 176, 4, 1, Table::kNone, 0, 32, ScaleKind::kSuperMin},
    {"q6_k", 256, 210, 4, 2, Table::kNone, 32, 16, ScaleKind::kSuper},
    {"iq4_xs", 256, 136, 4, 0, Table::kIq4, 128, 32, ScaleKind::kSuper},
    // Twice the values and half the scale, so that values are whole numbers.
    {"mxfp4", 32, 17, 4, 0, Table::kE2m1, 12, 32, ScaleKind::kBrain},
    {"iq1_s", 256, 50, 2, 1, Table::kIq1, 9, 32, ScaleKind::kSuper, 3},
    {"iq1_m", 256, 56, 2, 1, Table::kIq1, 9, 16, ScaleKind::kSuper, 3},
    {"iq2_xxs", 256, 66, 2, 1, Table::kIq2, 43, 32, ScaleKind::kSuper, 3},
    {"iq2_xs", 256, 74, 2, 1, Table::kIq2, 43, 16, ScaleKind::kSuper, 3},
    {"iq2_s", 256, 82, 2, 1, Table::kIq2, 43, 16, ScaleKind::kSuper, 3},
    {"iq3_xxs", 256, 98, 4, 0, Table::kIq3Xxs, 62, 32, ScaleKind::kSuper, 2},
    {"iq3_s", 256, 110, 4, 0, Table::kIq3S, 15, 32, ScaleKind::kSuper},
    {"tq1_0", 256, 54, 2, 0, Table::kNone, 1, 32, ScaleKind::kHalf},
    {"tq2_0", 256, 66, 2, 0, Table::kNone, 1, 32, ScaleKind::kHalf},
};

static constexpr const TypeInfo& info(Type type) { return kTypeInfo[static_cast<int>(type)]; }

// The 16 values that the codes of iq4_nl and iq4_xs stand for (public definition of those formats).
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Twice the values of e2m1, which mxfp4 has for codes.
constexpr int8_t kE2m1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The codebooks of iq1, iq2 and iq3 hold vectors of few levels each: here a column keeps its own level and sign, which
// takes up to 1.4 bits more than the file but no search in a codebook at each use. iq1: eight times -1, 0 or 1, moved
// down (codes 0 … 2) or up by 1.
constexpr int8_t kIq1Values[16] = {-9, -1, 7, 0, -7, 1, 9};
constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43};
constexpr int8_t kIq3XxsValues[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

static constexpr const int8_t (&table_values(Table table))[16] {
  switch (table) {
    case Table::kE2m1:
      return kE2m1Values;
    case Table::kIq1:
      return kIq1Values;
    case Table::kIq2:
      return kIq2Values;
    case Table::kIq3Xxs:
      return kIq3XxsValues;
    case Table::kIq3S:
      return kIq3SValues;
    default:
      return kIq4Values;
  }
}

static constexpr bool has_min(Type type) {
  const ScaleKind kind = info(type).scales;
  return kind == ScaleKind::kHalfMin || kind == ScaleKind::kSuperMin || kind == ScaleKind::kSuperMin4;
}
static constexpr bool is_super(Type type) { return info(type).file_cols == 256; }
// Types that are packed from the levels that their record decodes, not from the file's bits: iq1, iq2, iq3, tq1, tq2.
static constexpr bool is_levels(Type type) { return type >= Type::kIq1S && type <= Type::kTq2; }

// Bytes of one block's codes in a panel, and where its high bits begin.
static constexpr int64_t high_offset(Type type) { return info(type).low_bits * 64; }
static constexpr int64_t code_bytes(Type type) { return (info(type).low_bits + info(type).high_bits) * 64; }

// Bytes of one scale unit: a block of 32 or of 256 columns.
static constexpr int64_t scale_unit_bytes(Type type) {
  const int64_t groups = 256 / info(type).group;
  switch (info(type).scales) {
    case ScaleKind::kHalf:
    case ScaleKind::kBrain:
      return 32;
    case ScaleKind::kHalfMin:
      return 64;
    case ScaleKind::kSuper:
      return 32 + groups * 16;
    case ScaleKind::kSuperMin:
      return 64 + groups * 32;
    case ScaleKind::kSuperMin4:
      return 64 + groups * 16;
  }
  return 0;
}
// Where the codes of a panel begin.
static constexpr int64_t codes_offset(Type type, int64_t cols) {
  return (cols / info(type).file_cols * scale_unit_bytes(type) + 63) / 64 * 64;
}
static constexpr int64_t panel_bytes(Type type, int64_t cols) {
  return codes_offset(type, cols) + cols / kBlockCols * code_bytes(type);
}

// Layout ids of the packed form: "BL", then 1 + the type.
constexpr uint32_t kLayoutBase = 0x424c0001u;
static constexpr uint32_t layout_of(Type type) { return kLayoutBase + static_cast<uint32_t>(type); }
static constexpr bool is_layout(uint32_t layout) { return layout >= kLayoutBase && layout < kLayoutBase + kTypes; }
static constexpr Type type_of_layout(uint32_t layout) { return static_cast<Type>(layout - kLayoutBase); }

}  // namespace tenon::block
