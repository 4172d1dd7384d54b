// gated_delta_rule, row after row: a block owns 32 value columns of one head of one sequence and keeps their state in
// registers for the whole step. One function advances the state, wherever a row comes from, and taped numbers are those
// that were used; so a taped step committed in part leaves the bits of plain steps.
#include "transaction.cuh"

namespace tenon::cuda {
namespace {

constexpr int kColumns = 32, kSlices = 4;  // threads: a warp for each slice of the key's columns
constexpr int kMaxKeyDim = 256;

struct DeltaShape {
  int32_t key_heads, value_heads, key_dim, value_dim;
  bool is_mod;
  float scale;
  __device__ int32_t key_head(int32_t h) const { return is_mod ? h % key_heads : h / (value_heads / key_heads); }
  // The first value head of its key head writes the tape's key.
  __device__ bool is_first(int32_t h) const { return is_mod ? h < key_heads : h % (value_heads / key_heads) == 0; }
  // A tape row: keys, values, decays, betas.
  __device__ int64_t values_at() const { return int64_t(key_heads) * key_dim; }
  __device__ int64_t decays_at() const { return values_at() + int64_t(value_heads) * value_dim; }
  __device__ int64_t betas_at() const { return decays_at() + value_heads; }
};

struct DeltaInputs {
  View q, k, v, b, a;
  const void *rate, *bias;
  Codec codec_rate, codec_bias;
};

struct DeltaStore {
  uint8_t *base, *aux;
  const int32_t* slots;
  int64_t page_bytes, aux_bytes, tape_cols;
};

struct RowMemory {
  float key[kMaxKeyDim], query[kMaxKeyDim];
  float part[kSlices][kColumns];
};

// Sum over the slices of one number a thread, in ascending order; every slice gets it.
__device__ float slice_sum(RowMemory& memory, int slice, int column, float value) {
  __syncthreads();  // the sum before has been read
  memory.part[slice][column] = value;
  __syncthreads();
  float sum = memory.part[0][column];
  for (int i = 1; i < kSlices; ++i) sum += memory.part[i][column];
  return sum;
}

// S ← decay S; d = β (v − Sᵀk); S ← S + k dᵀ, for this thread's part of a column. memory.key is the row's key.
template <int kOwn>
__device__ void advance(float (&state)[kOwn], RowMemory& memory, int32_t key_dim, int slice, int column, float v,
                        float decay, float beta) {
  float recalled = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int k = slice + kSlices * i;
    if (k >= key_dim) continue;
    state[i] *= decay;
    recalled = fmaf(state[i], memory.key[k], recalled);
  }
  const float d = beta * (v - slice_sum(memory, slice, column, recalled));
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int k = slice + kSlices * i;
    if (k < key_dim) state[i] = fmaf(memory.key[k], d, state[i]);
  }
}

// Grid: blocks of value columns, value heads, sequences. kOwn × 4 ≥ key_dim.
template <int kOwn>
__global__ void __launch_bounds__(kColumns* kSlices)
    delta_rule(DeltaShape shape, DeltaInputs in, View o, DeltaStore store, StepSeqs step, uint32_t max_row) {
  __shared__ RowMemory memory;
  const int32_t s = int32_t(blockIdx.z), head = int32_t(blockIdx.y), key_head = shape.key_head(head);
  if (uint32_t(s) >= *step.n_seqs) return;
  const Transaction t = transaction_of(step, s);
  const int thread = int(threadIdx.x), slice = thread / kColumns, column = thread % kColumns;
  const int32_t j = int32_t(blockIdx.x) * kColumns + column;
  const bool has_column = j < shape.value_dim;
  const int32_t dk = shape.key_dim;
  if (!t.holds() || uint32_t(t.row0 + t.rows) > max_row) {
    if (slice == 0 && has_column)
      for (int32_t i = 0; i < t.rows && uint32_t(t.row0 + i) < max_row; ++i)
        *o.at(t.row0 + i, head * shape.value_dim + j) = quiet_nan();
    return;
  }
  float* base =
      reinterpret_cast<float*>(store.base + store.slots[s] * store.page_bytes) + int64_t(head) * dk * shape.value_dim;
  float* tapes = reinterpret_cast<float*>(store.aux + store.slots[s] * store.aux_bytes);
  const auto tape_row = [&](int32_t which, int32_t row) {
    return tapes + (int64_t(which) * TENON_DECODE_MAX_TOKENS + row) * store.tape_cols;
  };
  float state[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int k = slice + kSlices * i;
    state[i] = has_column && k < dk ? base[int64_t(k) * shape.value_dim + j] : 0.0f;
  }
  const auto write_base = [&] {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int k = slice + kSlices * i;
      if (has_column && k < dk) base[int64_t(k) * shape.value_dim + j] = state[i];
    }
  };
  const auto apply_taped = [&](const float* row) {
    __syncthreads();  // the key before has been read
    for (int k = thread; k < dk; k += kColumns * kSlices) memory.key[k] = row[key_head * dk + k];
    __syncthreads();
    const float v = has_column ? row[shape.values_at() + head * shape.value_dim + j] : 0.0f;
    advance<kOwn>(state, memory, dk, slice, column, v, row[shape.decays_at() + head], row[shape.betas_at() + head]);
  };
  for (int32_t i = 0; i < t.accepted; ++i) apply_taped(tape_row(t.replay, i));
  if (t.is_taped() && t.accepted > 0) write_base();
  for (int32_t i = 0; i < t.earlier(); ++i) apply_taped(tape_row(t.tape, i));

  for (int32_t i = 0; i < t.rows; ++i) {
    const int32_t r = t.row0 + i;
    const float x = *in.a.at(r, head) + load_float(in.codec_bias, in.bias, head);
    const float softplus = x > 20.0f ? x : log1pf(expf(x));
    const float decay = expf(load_float(in.codec_rate, in.rate, head) * softplus);
    const float beta = sigmoid(*in.b.at(r, head));
    const float v = has_column ? *in.v.at(r, head * shape.value_dim + j) : 0.0f;
    __syncthreads();  // key and query before have been read
    for (int k = thread; k < dk; k += kColumns * kSlices) {
      memory.key[k] = *in.k.at(r, key_head * dk + k);
      memory.query[k] = *in.q.at(r, key_head * dk + k);
    }
    __syncthreads();
    if (t.is_taped()) {
      float* row = tape_row(t.tape, t.tape_start + i);
      if (blockIdx.x == 0 && shape.is_first(head))
        for (int k = thread; k < dk; k += kColumns * kSlices) row[key_head * dk + k] = memory.key[k];
      if (slice == 0 && has_column) row[shape.values_at() + head * shape.value_dim + j] = v;
      if (blockIdx.x == 0 && thread == 0) row[shape.decays_at() + head] = decay, row[shape.betas_at() + head] = beta;
    }
    advance<kOwn>(state, memory, dk, slice, column, v, decay, beta);
    float product = 0;
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      const int k = slice + kSlices * n;
      if (k < dk) product = fmaf(state[n], memory.query[k], product);
    }
    const float sum = slice_sum(memory, slice, column, product);
    if (slice == 0 && has_column) *o.at(r, head * shape.value_dim + j) = sum * shape.scale;
  }
  if (!t.is_taped()) write_base();
}

}  // namespace

void launch_delta(const OpPlan& plan, const Launch& launch) {
  const tenon_gated_delta_rule_attr& attr = plan.delta;
  const tenon_store& from = launch.store(0);
  const tenon_step& step = launch.step();
  const DeltaShape shape = {int32_t(attr.key_heads), int32_t(attr.value_heads),           int32_t(attr.key_dim),
                            int32_t(attr.value_dim), attr.head_map == TENON_HEAD_MAP_MOD, attr.scale};
  const DeltaInputs in = {view_of(launch.in(0)),
                          view_of(launch.in(1)),
                          view_of(launch.in(2)),
                          view_of(launch.in(3)),
                          view_of(launch.in(4)),
                          array<void>(launch.weight(0).plane[0]),
                          array<void>(launch.weight(1).plane[0]),
                          plan.codec[0],
                          plan.codec[1]};
  const DeltaStore store = {reinterpret_cast<uint8_t*>(from.base),
                            reinterpret_cast<uint8_t*>(from.aux),
                            array<int32_t>(from.table),
                            from.page_bytes,
                            from.aux_bytes,
                            plan.store.tape_cols};
  const auto run = [&](auto kernel) {
    enqueue(launch, "gated_delta_rule", kernel,
            dim3(blocks_for(shape.value_dim, kColumns), attr.value_heads, step.max_seqs), unsigned(kColumns * kSlices),
            shape, in, view_of(launch.out(0)), store, seqs_of(step), launch.rows());
  };
  if (shape.key_dim <= 32) return run(delta_rule<8>);
  if (shape.key_dim <= 64) return run(delta_rule<16>);
  if (shape.key_dim <= 128) return run(delta_rule<32>);
  run(delta_rule<64>);
}

}  // namespace tenon::cuda
