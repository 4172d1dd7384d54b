#include "step.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "records.hpp"

namespace tenon::kit {
namespace {

tenon_addr address(const void* p) { return reinterpret_cast<tenon_addr>(p); }

int64_t row_bytes(const tenon_dtype& dtype, int64_t cols) {
  if (cols % dtype.block_cols) throw std::runtime_error("a store's head width is no whole number of blocks");
  return cols / dtype.block_cols * dtype.block_bytes;
}

std::vector<int32_t> shuffled(size_t n, uint64_t seed) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Random random(seed);
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
  return order;
}

}  // namespace

Step::Step(std::vector<SeqRows> sequences, uint32_t padding_rows, uint32_t padding_seqs) {
  n_seqs = uint32_t(sequences.size());
  n_rows = 0;
  for (const SeqRows& s : sequences) n_rows += uint32_t(s.rows);
  max_rows = n_rows + padding_rows, max_seqs = n_seqs + padding_seqs;
  for (auto* array : {&token, &index, &seq, &span, &overlay, &out_row}) array->assign(max_rows, INT32_MIN);
  position.assign(4 * size_t(max_rows), INT32_MIN);
  for (auto* array : {&kv_len, &seq_end, &accepted, &replay, &tape, &tape_start, &half})
    array->assign(max_seqs, INT32_MIN);
  row_start.assign(max_seqs + 1, INT32_MIN);
  status.assign(max_rows, 0);
  uint32_t r = 0;
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const SeqRows& from = sequences[s];
    row_start[s] = int32_t(r);
    kv_len[s] = from.past, seq_end[s] = from.past + from.rows;
    accepted[s] = from.accepted, replay[s] = from.replay, tape[s] = from.tape;
    tape_start[s] = from.tape_start, half[s] = from.half;
    for (int32_t i = 0; i < from.rows; ++i, ++r) {
      token[r] = 0, index[r] = from.past + i, seq[r] = int32_t(s), span[r] = -1, overlay[r] = -1;
      for (uint32_t stream = 0; stream < 4; ++stream) position[stream * max_rows + r] = from.past + i;
    }
  }
  row_start[n_seqs] = int32_t(r);
}

void Step::select(const std::vector<int32_t>& out_rows) {
  if (out_rows.size() > out_row.size()) out_row.resize(out_rows.size()), status.resize(out_rows.size());
  std::copy(out_rows.begin(), out_rows.end(), out_row.begin());
  n_outputs = uint32_t(out_rows.size());
}

tenon_step Step::table() {
  tenon_step t = {};
  t.struct_size = sizeof t, t.max_rows = max_rows, t.max_seqs = max_seqs, t.max_pages = max_pages;
  t.n_rows = address(&n_rows), t.n_seqs = address(&n_seqs), t.n_outputs = address(&n_outputs);
  t.token = address(token.data()), t.position = address(position.data()), t.index = address(index.data());
  t.seq = address(seq.data()), t.row_start = address(row_start.data()), t.kv_len = address(kv_len.data());
  t.seq_end = address(seq_end.data()), t.accepted = address(accepted.data()), t.replay = address(replay.data());
  t.tape = address(tape.data()), t.tape_start = address(tape_start.data()), t.half = address(half.data());
  t.span = address(span.data()), t.overlay = address(overlay.data()), t.out_row = address(out_row.data());
  t.status = address(status.data());
  return t;
}

Store Store::paged(uint32_t kv_heads, uint32_t head_dim, uint32_t head_dim_v, const std::string& dtype_k,
                   const std::string& dtype_v, uint32_t seqs, int64_t positions, int32_t window, uint64_t seed) {
  const Records& kit = records();
  Store s;
  s.type = {.struct_size = sizeof(tenon_store_type),
            .kind = TENON_STORE_PAGED,
            .dtype_k = kit.dtype_id(dtype_k),
            .dtype_v = kit.dtype_id(dtype_v),
            .layout = 0,
            .heads = kv_heads,
            .window = window,
            .layer = 0,
            .cols_k = int64_t(kv_heads) * head_dim,
            .cols_v = int64_t(kv_heads) * head_dim_v,
            .tape_cols = 0};
  s.page_tokens = TENON_PAGE_TOKENS;
  s.table_stride = uint32_t((positions + TENON_PAGE_TOKENS - 1) / TENON_PAGE_TOKENS) + 1;
  s.value_offset = TENON_ALIGN64(int64_t(kv_heads) * TENON_PAGE_TOKENS * row_bytes(kit.dtype(dtype_k), head_dim));
  s.page_bytes =
      s.value_offset + TENON_ALIGN64(int64_t(kv_heads) * TENON_PAGE_TOKENS * row_bytes(kit.dtype(dtype_v), head_dim_v));
  const uint32_t used = s.table_stride - 1;
  const auto order = shuffled(size_t(seqs) * used + 3, seed);
  s.table.assign(size_t(seqs + 1) * s.table_stride, -1);
  for (uint32_t q = 0; q < seqs; ++q)
    for (uint32_t p = 0; p < used; ++p) s.table[size_t(q) * s.table_stride + p] = order[q * used + p];
  s.base.assign(order.size() * size_t(s.page_bytes), 0xff);
  return s;
}

Store Store::latent(uint32_t cols, const std::string& dtype, uint32_t seqs, int64_t positions, uint64_t seed) {
  Store s = paged(1, cols, 0, dtype, dtype, seqs, positions, 0, seed);
  s.type.kind = TENON_STORE_LATENT;
  return s;
}

Store Store::conv(uint32_t channels, uint32_t taps, uint32_t seqs, uint64_t seed) {
  Store s;
  s.type = {.struct_size = sizeof(tenon_store_type),
            .kind = TENON_STORE_CONV,
            .dtype_k = TENON_DTYPE_F32,
            .dtype_v = TENON_DTYPE_F32,
            .layout = 0,
            .heads = 0,
            .window = 0,
            .layer = 0,
            .cols_k = channels,
            .cols_v = taps - 1,
            .tape_cols = channels};
  s.page_bytes = TENON_ALIGN64(int64_t(2) * (taps - 1) * channels * 4);
  s.aux_bytes = TENON_ALIGN64(int64_t(2) * TENON_DECODE_MAX_TOKENS * channels * 4);
  s.table_stride = 1;
  auto order = shuffled(seqs + 2, seed);
  s.base.assign(order.size() * size_t(s.page_bytes), 0);
  s.aux.assign(order.size() * size_t(s.aux_bytes), 0xff);
  s.table.assign(order.begin(), order.begin() + seqs);
  s.table.push_back(INT32_MIN);
  return s;
}

Store Store::recurrent(uint32_t key_heads, uint32_t value_heads, uint32_t key_dim, uint32_t value_dim, uint32_t seqs,
                       uint64_t seed) {
  Store s;
  const int64_t tape_cols = int64_t(key_heads) * key_dim + int64_t(value_heads) * value_dim + 2 * int64_t(value_heads);
  s.type = {.struct_size = sizeof(tenon_store_type),
            .kind = TENON_STORE_RECURRENT,
            .dtype_k = TENON_DTYPE_F32,
            .dtype_v = TENON_DTYPE_F32,
            .layout = 0,
            .heads = value_heads,
            .window = 0,
            .layer = 0,
            .cols_k = int64_t(value_heads) * key_dim,
            .cols_v = value_dim,
            .tape_cols = tape_cols};
  s.page_bytes = TENON_ALIGN64(int64_t(value_heads) * key_dim * value_dim * 4);
  s.aux_bytes = TENON_ALIGN64(2 * TENON_DECODE_MAX_TOKENS * tape_cols * 4);
  s.table_stride = 1;
  auto order = shuffled(seqs + 2, seed);
  s.base.assign(order.size() * size_t(s.page_bytes), 0);
  s.aux.assign(order.size() * size_t(s.aux_bytes), 0xff);
  s.table.assign(order.begin(), order.begin() + seqs);
  s.table.push_back(INT32_MIN);
  return s;
}

tenon_store Store::view() {
  tenon_store v = {};
  v.base = address(base.data()), v.table = address(table.data()), v.aux = aux.empty() ? 0 : address(aux.data());
  v.page_bytes = page_bytes, v.value_offset = value_offset, v.aux_bytes = aux_bytes;
  v.page_tokens = page_tokens, v.table_stride = table_stride;
  return v;
}

uint8_t* Store::row(uint32_t seq, int64_t position, uint32_t head, bool value) const {
  const Records& kit = records();
  const tenon_dtype& dtype = *kit.dtype_record(value ? type.dtype_v : type.dtype_k);
  const int64_t step = row_bytes(dtype, (value ? type.cols_v : type.cols_k) / type.heads);
  const int32_t page = table[size_t(seq) * table_stride + size_t(position / TENON_PAGE_TOKENS)];
  if (page < 0) throw std::runtime_error("position " + std::to_string(position) + " has no page");
  const int64_t offset = page * page_bytes + (value ? value_offset : 0) +
                         (int64_t(head) * TENON_PAGE_TOKENS + position % TENON_PAGE_TOKENS) * step;
  return const_cast<uint8_t*>(base.data()) + offset;
}

void Store::put(uint32_t seq, int64_t position, const float* k, const float* v) {
  for (uint32_t h = 0; h < type.heads; ++h)
    for (const bool value : {false, true}) {
      const int64_t cols = (value ? type.cols_v : type.cols_k) / type.heads;
      if (!cols) continue;
      const tenon_dtype& dtype = *records().dtype_record(value ? type.dtype_v : type.dtype_k);
      if (!dtype.encode) throw std::runtime_error("a store's dtype has no encoder");
      tenon_weight w = {};
      w.struct_size = sizeof w, w.plane[0] = address(row(seq, position, h, value)), w.rows = 1, w.cols = cols;
      w.row_bytes = row_bytes(dtype, cols);
      dtype.encode((value ? v : k) + h * cols, 1, cols, &w);
    }
}

void Store::get(uint32_t seq, int64_t position, float* k, float* v) const {
  for (uint32_t h = 0; h < type.heads; ++h)
    for (const bool value : {false, true}) {
      const int64_t cols = (value ? type.cols_v : type.cols_k) / type.heads;
      if (!cols) continue;
      const tenon_dtype& dtype = *records().dtype_record(value ? type.dtype_v : type.dtype_k);
      tenon_weight w = {};
      w.struct_size = sizeof w, w.plane[0] = address(row(seq, position, h, value)), w.rows = 1, w.cols = cols;
      w.row_bytes = row_bytes(dtype, cols);
      dtype.decode(&w, 0, 1, (value ? v : k) + h * cols);
    }
}

void Store::give_back(uint32_t seq, int64_t page) {
  int32_t& entry = table[size_t(seq) * table_stride + size_t(page)];
  if (entry >= 0) std::memset(base.data() + entry * page_bytes, 0xff, size_t(page_bytes));
  entry = -1;
}

size_t Store::state_size() const { return size_t(type.cols_k * type.cols_v); }

float* Store::state(uint32_t seq, uint32_t half) {
  return reinterpret_cast<float*>(base.data() + table[seq] * page_bytes) + half * state_size();
}

float* Store::tape(uint32_t seq, uint32_t slot) {
  return reinterpret_cast<float*>(aux.data() + table[seq] * aux_bytes) +
         size_t(slot) * TENON_DECODE_MAX_TOKENS * size_t(type.tape_cols);
}

}  // namespace tenon::kit
