// linear.hpp: the product, as the kernel classes see it and as each instruction set provides it.
//
// y[r, n] = Σ_k x[r, k] × W[n, k] with x in q8_32. Definition of the fold, equal for every row count, tile and worker:
// per block of 32 columns in ascending order, per scale group g of the block in ascending order,
//   I = Σ code_x × integer_w                        exact, in 32-bit integers
//   t = fl(ds_g × I)                                ds_g: the weight's f32 scale, d × scale, exact
//   t = fma(nm_g, Σ code_x, t)                      for types with minimums; nm_g = m, or -(dmin × min), exact
//   y = fma(t, scale_x, y)                          y begins as 0
// A scale_x that is not a number makes its row not a number and no other.
#pragma once

#include <cstdint>

#include "types.hpp"

namespace tenon::block {

constexpr int kMaxWeights = 4;

struct Product {
  Type type;
  const uint8_t* packed;
  int64_t rows;            // N
  int64_t panel0, panel1;  // this worker's share
  float* out;
  int64_t out_row_bytes;
};

struct LinearJob {
  const uint8_t* x;  // q8_32 rows
  int64_t x_row_bytes, rows, cols;
  const int32_t* row_of;  // which row of x each row is; null = in order
  int n_product;
  Product product[kMaxWeights];
  uint8_t* scratch;    // scratch_bytes(), 64-byte aligned
  int64_t chunk_rows;  // rows that the scratch has room for
};

// Rows that are worked on before the next ones: as many as the second-level cache holds with their rearranged form. A
// worker's share of weights that fits there too is walked more often instead, kFewRows at a time, so that its outputs
// are written to few pages at once.
constexpr int64_t kFewRows = 48;
static constexpr int64_t chunk_rows_for(int64_t cols) {
  const int64_t fit = (int64_t{3} << 18) / (cols * 11 / 4 + 1);
  return fit < 48 ? 48 : fit > 192 ? 192 : fit / 48 * 48;
}
static inline int64_t chunk_rows(const LinearJob& job) {
  int64_t share = 0;
  for (int i = 0; i < job.n_product; ++i)
    share += (job.product[i].panel1 - job.product[i].panel0) * panel_bytes(job.product[i].type, job.cols);
  return share <= (int64_t{1} << 20) && kFewRows < job.chunk_rows ? kFewRows : job.chunk_rows;
}

// Products of gate and up to hidden rows in q8_32: act(gate) × up with the limits of tenon_glu_attr, block by block.
struct HiddenJob {
  const float *gate, *up;  // [rows][row_floats], both from column 0 of the blocks
  int64_t rows, row_floats;
  int64_t block0, blocks;  // of 32 columns
  float gate_factor, up_factor;
  uint32_t activation;
  float limit, alpha;
  uint8_t* out;  // q8_32 rows of `cols` columns
  int64_t out_row_bytes, cols;
};

// y[r] = Σ_s share[r, s] × slots[place[r, s]], as sdk::fold_slots adds; with slot_bytes y[r] is the slots, which begin so
// far behind one another. A place of -1: a slot of zeros.
struct FoldJob {
  const float* slots;    // [..][wide]
  const int32_t* place;  // [rows][top_k]
  const uint8_t* share;  // f32 rows
  int64_t share_row_bytes, rows, top_k, wide, cols;
  uint8_t* out;
  int64_t out_row_bytes, slot_bytes;
};

struct InstructionSet {
  const char* name;
  int64_t (*scratch_bytes)(int64_t cols, int64_t rows);  // of a job whose chunks have up to `rows` rows
  void (*linear)(const LinearJob&);
  void (*hidden)(const HiddenJob&);
  void (*fold)(const FoldJob&);
};

namespace portable {
extern const InstructionSet kInstructionSet;
void hidden(const HiddenJob&);
void fold(const FoldJob&);
}
namespace avx2 {
extern const InstructionSet kInstructionSet;
void hidden(const HiddenJob&);
void fold(const FoldJob&);
}
namespace avx512 {
extern const InstructionSet kInstructionSet;
void hidden(const HiddenJob&);
void fold(const FoldJob&);
void linear_amx(const LinearJob&);  // x in bf16; scratch: cpu::amx::kScratchBytes
}  // namespace avx512

}  // namespace tenon::block
