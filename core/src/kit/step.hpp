// Steps and stores for tests of kernels. Both are values: copy one before a run to compare two kernels from the same
// state.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "numeric.hpp"

namespace tenon::kit {

// One sequence of a step: what lies in its stores, what is new, and its transaction (tenon_step in abi.h).
struct SeqRows {
  int32_t past = 0;  // kv_len
  int32_t rows = 1;  // new tokens
  int32_t accepted = 0, replay = 0, tape = -1, tape_start = 0, half = 0;
};

// The step record with its arrays. Entries beyond the live ones are poison (INT32_MIN).
struct Step {
  explicit Step(std::vector<SeqRows> sequences, uint32_t padding_rows = 3, uint32_t padding_seqs = 1);
  // A step of `rows` rows of one fresh sequence: enough for ops that read no store.
  static Step plain(uint32_t rows) { return Step({SeqRows{0, int32_t(rows)}}); }

  tenon_step table();  // addresses into this object: valid until it is moved or its arrays grow
  uint32_t rows() const { return n_rows; }
  uint32_t row0(uint32_t seq) const { return uint32_t(row_start[seq]); }
  void select(const std::vector<int32_t>& out_rows);  // rows that select_rows gives; preset: none

  uint32_t max_rows, max_seqs, max_pages = 0, n_rows, n_seqs, n_outputs = 0;
  std::vector<int32_t> token, position, index, seq, row_start, kv_len, seq_end, accepted, replay, tape, tape_start,
      half;
  std::vector<int32_t> span, overlay, out_row;
  std::vector<uint32_t> status;
};

// A store of any kind with its memory. Unwritten memory is NaN (bytes 0xff).
struct Store {
  tenon_store_type type = {};
  Bytes base, aux;
  std::vector<int32_t> table;
  int64_t page_bytes = 0, value_offset = 0, aux_bytes = 0;
  uint32_t page_tokens = 0, table_stride = 0;

  // Pages for `positions` tokens of each of `seqs` sequences in shuffled places, with strangers' pages between them.
  static Store paged(uint32_t kv_heads, uint32_t head_dim, uint32_t head_dim_v, const std::string& dtype_k,
                     const std::string& dtype_v, uint32_t seqs, int64_t positions, int32_t window = 0,
                     uint64_t seed = 1);
  // The same of rows [rank + rope_dim], one a token.
  static Store latent(uint32_t cols, const std::string& dtype, uint32_t seqs, int64_t positions, uint64_t seed = 1);
  // Zeroed bases and poisoned tapes; slots in shuffled places.
  static Store conv(uint32_t channels, uint32_t taps, uint32_t seqs, uint64_t seed = 1);
  static Store recurrent(uint32_t key_heads, uint32_t value_heads, uint32_t key_dim, uint32_t value_dim, uint32_t seqs,
                         uint64_t seed = 1);

  tenon_store view();  // addresses into this object
  // PAGED: one position of a sequence, [heads × head_dim] as f32, rounded to the store's dtypes. LATENT: the row; v null.
  void put(uint32_t seq, int64_t position, const float* k, const float* v);
  void get(uint32_t seq, int64_t position, float* k, float* v) const;
  void give_back(uint32_t seq, int64_t page);  // the table says -1 and the page turns to poison
  // CONV: [taps - 1][channels] of a half. RECURRENT: [heads][key_dim][value_dim].
  float* state(uint32_t seq, uint32_t half = 0);
  size_t state_size() const;                 // numbers
  float* tape(uint32_t seq, uint32_t slot);  // [15][tape_cols]

 private:
  uint8_t* row(uint32_t seq, int64_t position, uint32_t head, bool value) const;
};

}  // namespace tenon::kit
