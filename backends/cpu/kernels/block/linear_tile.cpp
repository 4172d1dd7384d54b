// linear_tile.cpp: the product in register tiles; built once an instruction set.
//
// A tile is up to kMaxTile activation rows by the lanes of a register. Weights are decoded in registers, so a packed
// panel is read once for all rows of a tile, and stays in cache for the next tile.
#include <tenon/abi.h>

#include "codes.hpp"
#include "float_bits.hpp"
#include "linear.hpp"

namespace tenon::block::TENON_ISA {
namespace {

// Integer sums run on top of the bits of 1.5 × 2^23, so that, read as f32, they are kMagic + sum without a conversion
// (|sum| < 2^22 for every type). kMagic × scale is exact, hence fma(kMagic + sum, scale, -kMagic × scale) is the once
// rounded scale × sum. (A scale above 2^103, which only mxfp4 can have, gives no number.)
//
// Activations rearranged for a tile, block by block. Words of a block's record of `rows` rows: codes [8][rows], scale
// [rows], then for both halves of the block the start of the integer sum, or the f32 sum for types with minimums
// [2][rows].
constexpr int kScaleWord = 8, kSumWord = 9, kRecordWords = 11;

// Rows of the next tile when `left` are left: few and even tiles, since each decodes the weights anew.
int tile_rows(int64_t left) {
  const int n = left > 2 * kMaxTile ? 2 * kMaxTile : static_cast<int>(left);
  if (n <= kOddTile) return n;
  if (n < kMaxTile) return (n + 1) / 2;
  if (n > kMaxTile && n <= 2 * kOddTile) return (n + 1) / 2;
  return kMaxTile;
}

const uint8_t* row_begin(const LinearJob& job, int64_t row) {
  return job.x + (job.row_of ? job.row_of[row] : row) * job.x_row_bytes;
}

void fill_codes(const LinearJob& job, int64_t row0, int rows, int32_t* record) {
  const int64_t blocks = job.cols / kBlockCols;
  for (int r = 0; r < rows; ++r) {
    const uint8_t* x = row_begin(job, row0 + r);
    const uint8_t* scales = x + tenon_q8_32_scale_offset(job.cols);
    int32_t* to = record + r;
    for (int64_t b = 0; b < blocks; ++b, to += kRecordWords * rows) {
      for (int q = 0; q < 8; ++q) std::memcpy(to + q * rows, x + b * kBlockCols + 4 * q, 4);
      std::memcpy(to + kScaleWord * rows, scales + 4 * b, 4);
    }
  }
}

// The record's last words, which depend on the weight's type.
struct SumKind {
  int offset;
  bool min, halves;
  bool operator==(const SumKind& o) const { return offset == o.offset && min == o.min && halves == o.halves; }
};
SumKind sum_kind(Type type) { return {dot_offset(type), has_min(type), info(type).group == 16}; }

void fill_sums(const LinearJob& job, int64_t row0, int rows, SumKind kind, int32_t* record) {
  const int64_t blocks = job.cols / kBlockCols;
  for (int r = 0; r < rows; ++r) {
    const uint8_t* sums = row_begin(job, row0 + r) + tenon_q8_32_sum_offset(job.cols);
    int32_t* to = record + kSumWord * rows + r;
    for (int64_t b = 0; b < blocks; ++b, to += kRecordWords * rows) {
      int16_t pair[2];
      std::memcpy(pair, sums + 4 * b, 4);
      const int32_t first = kind.halves ? pair[0] : pair[0] + pair[1], second = pair[1];
      to[0] = kind.min ? bits_of(static_cast<float>(first)) : kMagicBits - kind.offset * first;
      to[rows] = kind.min ? bits_of(static_cast<float>(second)) : kMagicBits - kind.offset * second;
    }
  }
}

template <Type type, int R, int q>
TENON_INLINE void quad_step(Ints (&sums)[R], const uint8_t* codes, const int32_t* record) {
  const Bytes w = quad<type, q>(codes);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sums[r] = dot<quad_bits(type)>(sums[r], w, record[q * R + r]);
}

// Group `half` of a block (16 columns), or all of it: integer sums, then the fold.
template <Type type, int R, int half>
TENON_INLINE void group_step(Floats (&acc)[R], const uint8_t* codes, const GroupScales& scales, const int32_t* record) {
  constexpr bool kHalves = kTypeInfo[static_cast<int>(type)].group == 16;
  constexpr bool kMin = has_min(type);
  const int32_t* group_sum = record + (kSumWord + half) * R;
  Ints sums[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sums[r] = broadcast(kMin ? kMagicBits : group_sum[r]);
  if constexpr (!kHalves || half == 0) {
    quad_step<type, R, 0>(sums, codes, record);
    quad_step<type, R, 1>(sums, codes, record);
    quad_step<type, R, 2>(sums, codes, record);
    quad_step<type, R, 3>(sums, codes, record);
  }
  if constexpr (!kHalves || half == 1) {
    quad_step<type, R, 4>(sums, codes, record);
    quad_step<type, R, 5>(sums, codes, record);
    quad_step<type, R, 6>(sums, codes, record);
    quad_step<type, R, 7>(sums, codes, record);
  }
  const Floats magic = mul(scales.scale, broadcast(-kMagic));
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    Floats t = fma(as_floats(sums[r]), scales.scale, magic);
    if constexpr (kMin) t = fma(scales.min, broadcast(float_of(group_sum[r])), t);
    acc[r] = fma(t, broadcast(float_of(record[kScaleWord * R + r])), acc[r]);
  }
}

constexpr int64_t kPanelsTogether = 4;  // panels that a tile of rows meets one after the other, with many rows

// How far ahead of use codes are asked for: beyond the page in use, at whose end the processor's own prefetch stops. One row
// of q4_k takes two workers from 52 to 64 GB/s by that where a read loop reaches 82. Past the weight's end it asks for nothing.
constexpr int64_t kPrefetchBytes = 6144;

template <Type type, int R>
void tile(const uint8_t* panel, const int32_t* record, int64_t cols, float* out, int64_t out_row_bytes, int lanes) {
  constexpr TypeInfo kInfo = kTypeInfo[static_cast<int>(type)];
  constexpr bool kHalves = kInfo.group == 16;
  constexpr int kBlocksAUnit = kInfo.file_cols / kBlockCols;
  for (int lane = 0; lane < lanes; lane += kLanes) {
    Floats acc[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[r] = zero();
    const uint8_t* unit = panel;
    const uint8_t* codes = panel + codes_offset(type, cols) + lane * 4;
    const int32_t* x = record;
    for (int64_t left = cols / kInfo.file_cols; left > 0; --left, unit += scale_unit_bytes(type)) {
      for (int b = 0; b < kBlocksAUnit; ++b, codes += code_bytes(type), x += kRecordWords * R) {
        for (int64_t line = 0; line < code_bytes(type); line += 64) prefetch(codes + kPrefetchBytes + line);
        group_step<type, R, 0>(acc, codes, group_scales<type>(unit, lane, kHalves ? 2 * b : b), x);
        if constexpr (kHalves) group_step<type, R, 1>(acc, codes, group_scales<type>(unit, lane, 2 * b + 1), x);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
      store(reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(out) + r * out_row_bytes) + lane, acc[r], lanes - lane);
  }
}

using TileFunction = void (*)(const uint8_t*, const int32_t*, int64_t, float*, int64_t, int);
struct TypeTiles {
  TileFunction rows[kMaxTile + 1];  // by tile_rows()
};
template <Type type>
constexpr TypeTiles make_tiles() {
  TypeTiles t{};
  t.rows[1] = tile<type, 1>, t.rows[2] = tile<type, 2>;
  if constexpr (kOddTile >= 4) t.rows[3] = tile<type, 3>, t.rows[4] = tile<type, 4>;
  if constexpr (kOddTile >= 8) {
    t.rows[5] = tile<type, 5>, t.rows[6] = tile<type, 6>, t.rows[7] = tile<type, 7>, t.rows[8] = tile<type, 8>;
  }
  t.rows[kMaxTile] = tile<type, kMaxTile>;
  return t;
}
constexpr TypeTiles kTiles[kTypes] = {
    make_tiles<Type::kQ4_0>(),  make_tiles<Type::kQ4_1>(),  make_tiles<Type::kQ5_0>(),   make_tiles<Type::kQ5_1>(),
    make_tiles<Type::kQ8_0>(),  make_tiles<Type::kIq4Nl>(), make_tiles<Type::kQ2K>(),    make_tiles<Type::kQ3K>(),
    make_tiles<Type::kQ4K>(),   make_tiles<Type::kQ5K>(),   make_tiles<Type::kQ6K>(),    make_tiles<Type::kIq4Xs>(),
    make_tiles<Type::kMxfp4>(), make_tiles<Type::kIq1S>(),  make_tiles<Type::kIq1M>(),   make_tiles<Type::kIq2Xxs>(),
    make_tiles<Type::kIq2Xs>(), make_tiles<Type::kIq2S>(),  make_tiles<Type::kIq3Xxs>(), make_tiles<Type::kIq3S>(),
    make_tiles<Type::kTq1>(),   make_tiles<Type::kTq2>(),
};

void chunk(const LinearJob& job, int64_t row0, int64_t rows) {
  int32_t* records = reinterpret_cast<int32_t*>(job.scratch);
  const int64_t row_words = job.cols / kBlockCols * kRecordWords;
  for (int64_t r = 0; r < rows; r += tile_rows(rows - r))
    fill_codes(job, row0 + r, tile_rows(rows - r), records + r * row_words);
  SumKind filled{-1, false, false};
  for (int i = 0; i < job.n_product; ++i) {
    const Product& p = job.product[i];
    if (p.panel0 >= p.panel1) continue;
    const SumKind kind = sum_kind(p.type);
    if (!(kind == filled)) {
      for (int64_t r = 0; r < rows; r += tile_rows(rows - r))
        fill_sums(job, row0 + r, tile_rows(rows - r), kind, records + r * row_words);
      filled = kind;
    }
    const TypeTiles& tiles = kTiles[static_cast<int>(p.type)];
    const int64_t bytes = panel_bytes(p.type, job.cols);
    // With many tiles a few panels together, so that a tile writes whole stretches of its output rows.
    const int64_t together = rows > 2 * kMaxTile ? kPanelsTogether : 1;
    for (int64_t first = p.panel0; first < p.panel1; first += together) {
      const int64_t end = first + together < p.panel1 ? first + together : p.panel1;
      for (int64_t r = 0, n; r < rows; r += n) {
        n = tile_rows(rows - r);
        for (int64_t panel = first; panel < end; ++panel) {
          const int64_t left = p.rows - panel * kPanelRows;
          uint8_t* out = reinterpret_cast<uint8_t*>(p.out) + (row0 + r) * p.out_row_bytes + panel * kPanelRows * 4;
          tiles.rows[n](p.packed + panel * bytes, records + r * row_words, job.cols, reinterpret_cast<float*>(out),
                        p.out_row_bytes, static_cast<int>(left < kPanelRows ? left : kPanelRows));
        }
      }
    }
  }
}

int64_t scratch_bytes(int64_t cols, int64_t rows) { return rows * (cols / kBlockCols) * kRecordWords * 4; }

void linear(const LinearJob& job) {
  const int64_t step = chunk_rows(job);
  for (int64_t row = 0; row < job.rows; row += step) chunk(job, row, job.rows - row < step ? job.rows - row : step);
}

}  // namespace

#define TENON_TEXT_(x) #x
#define TENON_TEXT(x) TENON_TEXT_(x)
extern const InstructionSet kInstructionSet;
const InstructionSet kInstructionSet = {TENON_TEXT(TENON_ISA), scratch_bytes, linear, hidden, fold};

}  // namespace tenon::block::TENON_ISA
