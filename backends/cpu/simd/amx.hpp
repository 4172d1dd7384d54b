// amx.hpp: products of bf16 in AMX tiles, for prefill kernels of CPU families. Needs the features "amx_tile amx_bf16",
// and sources built with -mamx-tile -mamx-bf16.
//
//   C[m][16 j + lane] (+)= Σ_k A[m][k] × B(j)[k / 2][lane][k % 2]
//
// One tile instruction takes 16 rows, 16 lanes and 32 columns of K. Every output is one chain over k in steps of 32,
// as the processor adds inside a tile, whatever the number of rows or lanes beside it.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // as GCC and newer Clang, or Clang before 15, spell it
#define TENON_BUILDS_AMX
#include <immintrin.h>
#endif

namespace tenon::cpu::amx {

inline constexpr int64_t kLanes = 16;  // of a panel of B
inline constexpr int64_t kStep = 32;   // columns of K that a tile holds
inline constexpr int64_t kRows = 16;   // of A that a tile holds

// Columns of K for which two panels of B stay in the first-level cache.
inline constexpr int64_t kSlab = 512;
inline constexpr int64_t kSlabBytes = kSlab * kLanes * 2;  // of one panel

inline constexpr int64_t kRowsTogether = 512, kPanelsTogether = 16;
inline constexpr uint64_t kScratchBytes = uint64_t(2 * kSlabBytes + kRowsTogether * kLanes * 4);

#if defined(TENON_BUILDS_AMX)

// Tile instructions are assembler to some compilers, which then do not see what memory they read.
inline void settle(const void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

// Tiles are the thread's own and large; give them back before doing anything else.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { _tile_release(); }

  // A and C tiles of `first` and `second` rows, 1 … 16 each.
  void configure(int64_t first, int64_t second) {
    if (first == first_ && second == second_) return;
    first_ = first, second_ = second;
    struct alignas(64) {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } config;
    std::memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) config.row_bytes[tile] = 64;
    const int64_t rows[8] = {first, first, second, second, first, second, kRows, kRows};
    for (int tile = 0; tile < 8; ++tile) config.rows[tile] = static_cast<uint8_t>(rows[tile]);
    settle(&config);
    _tile_loadconfig(&config);
  }

 private:
  int64_t first_ = 0, second_ = 0;
};

struct Operands {
  const void* a;  // bf16
  int64_t a_row_bytes;
  const void* b[2];  // panels, [k / 2][16][2] bf16; the second is null where there is one
  float* c[2];       // where each panel's outputs begin
  int64_t c_row_bytes[2];
  int64_t k;  // a multiple of 32
  bool add;   // to what C holds
};

namespace detail {

template <bool kSecondRows, bool kSecondPanel>
inline void block(const Operands& o, int64_t row) {
  const uint8_t* a0 = static_cast<const uint8_t*>(o.a) + row * o.a_row_bytes;
  const uint8_t* a1 = a0 + kRows * o.a_row_bytes;
  const auto* b0 = static_cast<const uint8_t*>(o.b[0]);
  const auto* b1 = static_cast<const uint8_t*>(o.b[1]);
  uint8_t* c0 = reinterpret_cast<uint8_t*>(o.c[0]) + row * o.c_row_bytes[0];
  uint8_t* c1 = kSecondPanel ? reinterpret_cast<uint8_t*>(o.c[1]) + row * o.c_row_bytes[1] : nullptr;
  const int64_t down0 = kRows * o.c_row_bytes[0], down1 = kRows * o.c_row_bytes[1];
  if (o.add) {
    _tile_loadd(0, c0, o.c_row_bytes[0]);
    if constexpr (kSecondPanel) _tile_loadd(1, c1, o.c_row_bytes[1]);
    if constexpr (kSecondRows) _tile_loadd(2, c0 + down0, o.c_row_bytes[0]);
    if constexpr (kSecondRows && kSecondPanel) _tile_loadd(3, c1 + down1, o.c_row_bytes[1]);
  } else {
    _tile_zero(0);
    if constexpr (kSecondPanel) _tile_zero(1);
    if constexpr (kSecondRows) _tile_zero(2);
    if constexpr (kSecondRows && kSecondPanel) _tile_zero(3);
  }
  for (int64_t k = 0; k < o.k; k += kStep) {
    _tile_loadd(4, a0 + 2 * k, o.a_row_bytes);
    _tile_loadd(6, b0 + 32 * k, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kSecondPanel) {
      _tile_loadd(7, b1 + 32 * k, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kSecondRows) {
      _tile_loadd(5, a1 + 2 * k, o.a_row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kSecondPanel) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c0, o.c_row_bytes[0]);
  if constexpr (kSecondPanel) _tile_stored(1, c1, o.c_row_bytes[1]);
  if constexpr (kSecondRows) _tile_stored(2, c0 + down0, o.c_row_bytes[0]);
  if constexpr (kSecondRows && kSecondPanel) _tile_stored(3, c1 + down1, o.c_row_bytes[1]);
  settle(c0);
}

template <bool kSecondPanel>
inline void all_rows(Tiles& tiles, const Operands& o, int64_t rows) {
  int64_t row = 0;
  if (rows >= 2 * kRows) tiles.configure(kRows, kRows);
  for (; row + 2 * kRows <= rows; row += 2 * kRows) block<true, kSecondPanel>(o, row);
  const int64_t left = rows - row;
  if (left > kRows) {
    tiles.configure(kRows, left - kRows);
    block<true, kSecondPanel>(o, row);
  } else if (left > 0) {
    tiles.configure(left, left);
    block<false, kSecondPanel>(o, row);
  }
}

}  // namespace detail

// The product above for `rows` rows and one panel or two.
inline void multiply(Tiles& tiles, const Operands& operands, int64_t rows) {
  settle(operands.b[0]);
  if (operands.b[1]) {
    detail::all_rows<true>(tiles, operands, rows);
  } else {
    detail::all_rows<false>(tiles, operands, rows);
  }
}

// One weight for a worker: y[rows][16 × panels, the last one `ragged` lanes wide] = x × W.
//
// Loops: some panels whose outputs stay in the second-level cache, then slabs of K, whose part of x stays there too,
// then two panels at a time, whose part of W stays in the first-level cache for all rows.
struct Job {
  const uint8_t* x;  // bf16 rows
  int64_t x_row_bytes, rows, k;
  float* y;  // of the first panel
  int64_t y_row_bytes;
  int64_t panels;
  int64_t last_lanes;  // of the last panel; 16 = all
  uint8_t* scratch;    // scratch_bytes()
};

// `fill(panel, column, columns, buffer)` answers where the panel's bf16 [columns / 2][16][2] lie: in the weight itself,
// or in `buffer`, kSlabBytes that it has filled.
template <typename Fill>
void linear(const Job& job, const Fill& fill) {
  Tiles tiles;
  float* edge = reinterpret_cast<float*>(job.scratch + 2 * kSlabBytes);
  const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
  for (int64_t row = 0; row < job.rows; row += kRowsTogether) {
    const int64_t rows = least(kRowsTogether, job.rows - row);
    uint8_t* y = reinterpret_cast<uint8_t*>(job.y) + row * job.y_row_bytes;
    for (int64_t first = 0; first < job.panels; first += kPanelsTogether) {
      const int64_t end = least(first + kPanelsTogether, job.panels);
      for (int64_t column = 0; column < job.k; column += kSlab) {
        Operands o = {};
        o.a = job.x + row * job.x_row_bytes + 2 * column, o.a_row_bytes = job.x_row_bytes;
        o.k = least(kSlab, job.k - column), o.add = column != 0;
        for (int64_t panel = first; panel < end; panel += 2) {
          for (int64_t i = 0; i < 2; ++i) {
            const bool here = panel + i < end, cut = panel + i + 1 == job.panels && job.last_lanes < kLanes;
            o.b[i] = here ? fill(panel + i, column, o.k, job.scratch + i * kSlabBytes) : nullptr;
            o.c[i] = cut ? edge : reinterpret_cast<float*>(y + (panel + i) * kLanes * 4);
            o.c_row_bytes[i] = cut ? kLanes * 4 : job.y_row_bytes;
          }
          multiply(tiles, o, rows);
        }
      }
      if (end < job.panels || job.last_lanes == kLanes) continue;
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(y + r * job.y_row_bytes + (end - 1) * kLanes * 4, edge + r * kLanes, size_t(job.last_lanes) * 4);
    }
  }
}

#endif  // TENON_BUILDS_AMX

}  // namespace tenon::cpu::amx
